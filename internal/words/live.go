package words

// Fleet holds the words of pages about many processes.
//
//nolint:gochecknoglobals // constant texts
var Fleet = struct {
	HostsOnline, HostsAway, OldestReport, Group, Rows, Total, Hosts, Changed, Wrong, Causes Text
	PageSize, Export, Paste, PasteHint, Find, Found, Unknown, MoreThere, Denied, Expired    Text
	LeftOut, PerNamespace, UnknownParameter, NoGroup, Builds, Columns                       Text
	ByProcess, ByHost, ByArea, ByNamespace, ByVersion, ByCause, ByState, Processes          Text
	Sort, SortKey, SortWrong, SortTotal, SortSince, LastHour, Trend                         Text
}{
	LastHour:     Text{"Last hour", "近 1 小时"},
	Trend:        Text{"{before} an hour ago, {now} now", "一小时前 {before}，现在 {now}"},
	HostsOnline:  Text{"Hosts online", "在线主机"},
	HostsAway:    Text{"Hosts away", "失联主机"},
	OldestReport: Text{"The oldest report of a host that is online is from", "在线主机中最早一次上报的时间："},
	Group:        Text{"Group by", "分组方式"}, Rows: Text{"single rows", "逐行显示"}, Total: Text{"{n} in all", "共 {n} 项"},
	Hosts: Text{"Hosts", "主机数"}, Changed: Text{"Last change", "最近变化"}, Wrong: Text{"Wrong", "异常"},
	Causes: Text{"By cause", "按原因"}, Builds: Text{"By version of the agent", "按 Agent 版本"},
	Columns:  Text{"Columns", "显示的列"},
	PageSize: Text{"Rows of a page", "每页行数"}, Export: Text{"Export as CSV", "导出 CSV"},
	Paste:     Text{"Paste addresses of hosts", "粘贴主机地址"},
	PasteHint: Text{"Ids or addresses, with anything between them, at most {n}", "主机 ID 或地址，分隔符不限，最多 {n} 个"},
	Find:      Text{"Find", "查找"}, Found: Text{"Hosts found: {n}", "找到 {n} 台主机"},
	Unknown:   Text{"{n} unknown:", "{n} 个未知："},
	MoreThere: Text{"and {n} more", "另有 {n} 个"},
	Denied: Text{
		"You may not do this with {n} of them. Leave these out:", "其中 {n} 个你无权操作，请先排除：",
	},
	Expired: Text{
		"The choice is older than 15 minutes. Choose the processes again.", "选择已超过 15 分钟，请重新选择进程。",
	},
	LeftOut: Text{
		"Left out: {n}. They match the filter only since then.", "此后又有 {n} 个进程符合筛选条件，未包含在内。",
	},
	PerNamespace:     Text{"By namespace", "按命名空间"},
	UnknownParameter: Text{"There is no such filter: {name}", "没有此筛选条件：{name}"},
	NoGroup:          Text{"none", "无"},
	ByProcess:        Text{"process", "进程"}, ByHost: Text{"host", "主机"}, ByArea: Text{"area", "管控区域"},
	ByNamespace: Text{"namespace", "命名空间"}, ByVersion: Text{"version", "版本"}, ByCause: Text{"cause", "原因"},
	ByState: Text{"state", "状态"}, Processes: Text{"processes", "进程数"},
	Sort: Text{"Sort by", "排序方式"}, SortKey: Text{"name", "名称"}, SortWrong: Text{"most wrong first", "异常最多在前"},
	SortTotal: Text{"most processes first", "进程最多在前"}, SortSince: Text{"latest change first", "最近变化在前"},
}

// Logs holds the words of the log of a process.
//
//nolint:gochecknoglobals // constant texts
var Logs = struct {
	Hosts, Gap, Run, ThisRun, Stream, AllStreams, Find, Follow, New, Newer, Lost Text
	NewEvents, NewerEvents, LostEvents, EndFollow                                Text
}{
	NewEvents: Text{"{n} new events ↓", "{n} 条新事件 ↓"}, NewerEvents: Text{"Newer events ↓", "较新的事件 ↓"},
	LostEvents: Text{"The events do not come any more. The page tries again.", "事件连接已中断，页面正在重试。"},
	EndFollow:  Text{"Back to the list", "返回列表"},
	Hosts: Text{
		"Hosts that are read: {n}. Name others by id, address or pattern; at most 20 are read.",
		"已读取 {n} 台主机。可以用 ID、地址或通配符指定其他主机，最多读取 20 台。",
	},
	Gap: Text{"… {n} bytes are missing here …", "…… 此处缺失 {n} 字节 ……"},
	Run: Text{"Run", "运行"}, ThisRun: Text{"present or last", "当前或最近一次"},
	Stream: Text{"Output", "输出"}, AllStreams: Text{"all", "全部"},
	Find: Text{"Find (regular expression)", "查找（正则表达式）"}, Follow: Text{"Follow", "实时跟踪"},
	New: Text{"{n} new lines ↓", "{n} 行新日志 ↓"}, Newer: Text{"Newer lines ↓", "较新的日志 ↓"},
	Lost: Text{"The log does not come any more. The page tries again.", "日志连接已中断，页面正在重试。"},
}

// Views holds the words of saved views.
//
//nolint:gochecknoglobals // constant texts
var Views = struct {
	Saved, Save, Share, SharedIn, Remove, View                 Text
	NoSelection, BadName, TooLong, NoNamespace, Taken, TooMany Text
}{
	Saved: Text{"Saved views", "已保存的视图"}, Save: Text{"Save this filter", "保存当前筛选"},
	Share:    Text{"Share in namespace (empty: only you)", "共享到命名空间（留空仅自己可见）"},
	SharedIn: Text{"shared in {name}", "共享于 {name}"}, Remove: Text{"Remove", "移除"}, View: Text{"view", "视图"},
	NoSelection: Text{
		"Pasted hosts are known for 15 minutes only: save a filter without them.", "粘贴的主机仅保留 15 分钟，请去除后再保存。",
	},
	BadName: Text{
		"The name is empty, is longer than {n} characters or has control characters.", "名称为空、超过 {n} 个字符或含有控制字符。",
	},
	TooLong:     Text{"The filter is longer than {n} bytes.", "筛选条件超过 {n} 字节。"},
	NoNamespace: Text{"You may not read a namespace {name}.", "没有你可以查看的命名空间 {name}。"},
	Taken:       Text{"You have a view with the name {name} there.", "你已有名为 {name} 的视图。"},
	TooMany:     Text{"You have {n} views: remove one first.", "你已有 {n} 个视图，请先移除一个。"},
}

// Apply holds the words of the page that applies a process file.
//
//nolint:gochecknoglobals // constant texts
var Apply = struct {
	Title, Load, Text, File, Plan, Again, Confirm, Edit, Reason           Text
	NoRestart, Prune, PruneNote, NoneStored, OneNamespace, Faults, Line   Text
	Steps, Restarts, NoSteps, TypeSteps, WrongSteps, Fields, Newer, Since Text
	Batches, Restored, Discard, AtOnce, AtRestart                         Text
}{
	Title: Text{"Apply", "变更"}, Load: Text{"Load what is stored", "载入现有配置"},
	Text: Text{"Process file", "进程文件"}, File: Text{"or choose a file, or drop it on the text", "或选择文件，也可将文件拖到文本框中"},
	Plan: Text{"Show the plan", "查看变更计划"}, Again: Text{"Plan again", "重新生成变更计划"},
	Confirm: Text{"Apply", "执行变更"}, Edit: Text{"Edit", "修改"}, Reason: Text{"Reason", "变更原因"},

	AtOnce: Text{"(live)", "（立即生效）"}, AtRestart: Text{"(restart)", "（需重启）"},
	NoRestart: Text{"Do not restart: changes wait for the next start", "不重启进程，变更在下次启动时生效"},
	Prune:     Text{"Remove what the file lacks", "移除文件中没有的进程"},
	PruneNote: Text{
		"A running process is stopped first. Apply again to remove it.",
		"运行中的进程会先停止；再执行一次变更后才会移除。",
	},
	NoneStored:   Text{"No host knows a process of namespace {ns} yet.", "还没有主机上有命名空间 {ns} 的进程。"},
	OneNamespace: Text{"The file has several namespaces: apply each by itself.", "文件中有多个命名空间，请分别执行。"},
	Faults:       Text{"Faults in the file: {n}. Nothing is done.", "文件中有 {n} 处错误，未做任何变更。"},
	Line:         Text{"Line", "行号"},

	Steps:      Text{"Changes: {n}, hosts: {hosts}", "{hosts} 台主机上有 {n} 项变更"},
	Restarts:   Text{"Restarts: {n}", "其中 {n} 项会重启进程。"},
	NoSteps:    Text{"Nothing to do: the hosts are as the file says.", "无需变更：主机上的进程已与文件一致。"},
	TypeSteps:  Text{"Type the number of changes to confirm:", "请输入变更项数以确认："},
	WrongSteps: Text{"That is not the number of changes.", "与变更项数不符。"},
	Fields:     Text{"Fields", "字段"},
	Newer: Text{
		"{user} was first, with revision {n}. Your text is as you left it. Look at the difference, and plan again.",
		"{user} 已先行变更（修订版本 {n}）。你的文本未改动，请查看差异后重新生成变更计划。",
	},
	Since:   Text{"What has changed since", "期间的变更"},
	Batches: Text{"It goes through the hosts in batches, as a rollout.", "将作为分批发布逐批执行。"},

	Restored: Text{"Your unsaved text is back.", "已恢复未提交的文本。"},
	Discard:  Text{"Discard it", "丢弃"},
}

// Timeline holds the words about what happened to a process on a host.
//
//nolint:gochecknoglobals // constant texts
var Timeline = struct {
	Title, SixHours, Quiet, Chart, Newest, Earlier Text
}{
	Title: Text{"Timeline", "时间线"}, SixHours: Text{"6 hours", "6 小时"},
	Quiet:   Text{"Nothing happened in this time.", "这段时间内没有事件。"},
	Chart:   Text{"Events in this time: {events}", "这段时间内的事件：{events}"},
	Newest:  Text{"The timeline has the newest {n} events only.", "时间线仅包含最新的 {n} 个事件。"},
	Earlier: Text{"earlier: {n}", "更早：{n} 个"},
}

// Inside holds the words about one process on one host.
//
//nolint:gochecknoglobals // constant texts
var Inside = struct {
	MainPID, Tree, Threads, Files, Owner, Group, Command, Directory, StartedBy, Revision, Stored Text
	AsOf, LastKnown, Then, Wrap, Download, Signal, SignalName, Scope, MainProcess, WholeTree     Text
	Check, Checked, Same, Unasked                                                                Text
}{
	MainPID: Text{"Main PID", "主进程 PID"}, Tree: Text{"Processes in its tree", "进程树中的进程数"},
	Threads: Text{"Threads", "线程数"}, Files: Text{"Open files", "打开的文件数"},
	Owner: Text{"Runs as", "运行用户"}, Group: Text{"Group", "用户组"},
	Command: Text{"Command line", "命令行"}, Directory: Text{"Directory", "工作目录"},
	StartedBy: Text{"Started by", "启动者"}, Revision: Text{"Runs with", "运行中的配置"},
	Stored: Text{"The stored spec is {revision}.", "已保存的配置为{revision}。"},
	AsOf: Text{
		"The host is away. Everything here is what it last reported.", "主机失联，以下均为其最后一次上报的内容。",
	},
	LastKnown: Text{"last known", "最后已知"}, Then: Text{"Last known cause", "最后已知的原因"},
	Wrap: Text{"Wrap long lines", "长行自动换行"}, Download: Text{"Download the last {n} lines", "下载最后 {n} 行"},

	Signal: Text{"Send a signal", "发送信号"}, SignalName: Text{"Signal", "信号"}, Scope: Text{"To", "发送给"},
	MainProcess: Text{"the main process", "主进程"}, WholeTree: Text{"all processes of its run", "本次运行的所有进程"},

	Check: Text{"Check now", "立即检查"}, Checked: Text{"Compared with the host just now", "刚刚与主机上的实际情况比对"},
	Same:    Text{"The process is as its spec says.", "进程与其配置一致。"},
	Unasked: Text{"The host did not answer.", "主机没有应答。"},
}

// Tabs holds the words of the page of a process on all its hosts.
//
//nolint:gochecknoglobals // constant texts
var Tabs = struct {
	History, Revision, Revisions, WhoRuns, NoRevision, Difference, Older, Done, File, WrongOf, AndMore Text
}{
	History: Text{"History", "历史"}, Revision: Text{"Revision", "修订版本"}, Revisions: Text{"Revisions", "修订版本"},
	WhoRuns: Text{"Who runs which revision", "各主机运行的修订版本"}, NoRevision: Text{"unknown", "未知"},
	Difference: Text{"Show the difference", "查看差异"},
	Older:      Text{"Older revisions of the namespace are not shown.", "未显示该命名空间更早的修订版本。"},
	Done:       Text{"Operations", "操作"}, File: Text{"Process file", "进程文件"},
	WrongOf: Text{"{wrong} of {n} are not as they should be.", "{n} 个中有 {wrong} 个异常。"},
	AndMore: Text{"and {n} more", "及另外 {n} 个"},
}
