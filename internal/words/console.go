package words

// Page holds the words of the frame around every page of the console.
//
//nolint:gochecknoglobals // constant texts
var Page = struct {
	Overview, Processes, Hosts, Tasks, Rollouts, Events                 Text
	SignIn, SignOut, SignInAs, SignInCommand, SignInCode, LinkUsed      Text
	Theme, Skip, Lost, Time, NotFound, Absent, Forbidden, Failed, Again Text
	Grants                                                              Text
	Apply, Clear, More, First, Nothing, NothingMatches, SameByCommand   Text
	Audit, Admin, Menu, Copy, Hidden, Person, Rejected, Above, Moved    Text
}{
	Overview: Text{"Overview", "概览"}, Processes: Text{"Processes", "进程"}, Hosts: Text{"Hosts", "主机"},
	Tasks: Text{"Tasks", "任务"}, Rollouts: Text{"Rollouts", "分批发布"}, Events: Text{"Events", "事件"},

	SignIn: Text{"Sign in", "登录"}, SignOut: Text{"Sign out", "退出登录"},
	SignInAs: Text{"Sign in as {user} on {host}", "以 {user} 身份登录 {host}"},
	SignInCommand: Text{
		"You need a link that signs this browser in. Run this command, and open the link it prints:",
		"此浏览器需要登录链接。请运行下面的命令，并打开它输出的链接：",
	},
	SignInCode: Text{"or paste the part of the link after #:", "或粘贴链接中 # 之后的部分："},
	LinkUsed: Text{
		"This link has expired, or somebody has used it. Run drover login for another link.",
		"该链接已过期或已被使用。请运行 drover login 获取新的链接。",
	},

	Theme: Text{"Light or dark", "浅色或深色"}, Skip: Text{"Skip to the content", "跳到正文"},
	Lost:      Text{"The server does not answer since {time}. You see the state of that moment.", "自 {time} 起无法连接服务器，以下为当时的状态。"},
	Time:      Text{"Times are in the time zone of this browser: {zone}", "时间按此浏览器的时区显示：{zone}"},
	NotFound:  Text{"There is nothing here that you may see.", "这里没有你有权查看的内容。"},
	Absent:    Text{"Nothing of this name exists, or it exists no longer.", "没有这个名称的内容：它从未存在，或已被删除。"},
	Forbidden: Text{"You may not do this.", "你无权执行此操作。"},
	Grants:    Text{"An administrator grants rights with", "管理员授权使用"},
	Failed:    Text{"The server could not answer", "服务器未能应答"}, Again: Text{"Try again", "重试"},

	Apply: Text{"Show", "显示"}, Clear: Text{"Clear the filter", "清除筛选"},
	Moved: Text{"Changes in rows: {n} · show", "{n} 行有变化 · 显示"},
	More:  Text{"Next page", "下一页"}, First: Text{"First page", "第一页"},
	Nothing:        Text{"There is none yet.", "暂无内容。"},
	NothingMatches: Text{"Nothing matches the filter.", "没有符合筛选条件的内容。"},
	SameByCommand:  Text{"The same by command:", "对应的命令："},

	Audit: Text{"Audit", "审计"}, Admin: Text{"Administration", "管理"}, Menu: Text{"Pages", "页面"},
	Copy: Text{"Copy", "复制"}, Hidden: Text{"Clear the filter to see all.", "清除筛选可查看全部。"},
	Rejected: Text{"The server has rejected this", "服务器拒绝了该请求"},
	Person:   Text{"Signed in as {user}", "当前用户：{user}"}, Above: Text{"Pages above", "上级页面"},
}

// Head holds the words of headings and columns.
//
//nolint:gochecknoglobals // constant texts
var Head = struct {
	Process, Host, State, Since, PID, CPU, Memory, Restarts, Why, Version, Hosted, Message        Text
	CPUOfHost, MemoryOfHost                                                                       Text
	Task, Operation, Subject, User, Created, Progress, Outcome, Started, Took                     Text
	Address, Build, Labels, LastSeen, System, Notes, At, Event, Cause, Count, Severity            Text
	NothingRuns, NotEnded, ExitCode, Signal                                                       Text
	WrongNow, NothingWrong, RunningNow, LastChanges, Remedy, Details, Log, Spec, LastExit, Health Text
	Batch, Failures, Plan, Reason, Name, Namespace, Results, ByMessage, LastWords, Actions        Text
	FirstFailures, RevisionOf, Also, AllEvents, Ago, Yes, No, All                                 Text
}{
	Process: Text{"Process", "进程"}, Host: Text{"Host", "主机"}, State: Text{"State", "状态"},
	Since: Text{"Since", "起始时间"}, PID: Text{"PID", "PID"}, CPU: Text{"CPU", "CPU"}, Memory: Text{"Memory", "内存"},
	CPUOfHost: Text{"CPU/host", "CPU/主机"}, MemoryOfHost: Text{"Memory/host", "内存/主机"},
	Restarts: Text{"Restarts", "重启次数"}, Why: Text{"Why", "原因"}, Version: Text{"Version", "版本"},
	Hosted: Text{"Hosted", "托管"}, Message: Text{"Message", "信息"},

	Task: Text{"Task", "任务"}, Operation: Text{"Operation", "操作"}, Subject: Text{"Subject", "对象"},
	User: Text{"User", "用户"}, Created: Text{"Created", "创建时间"}, Progress: Text{"Progress", "进度"},
	Outcome: Text{"Outcome", "执行结果"}, Started: Text{"Started", "启动时间"}, Took: Text{"Took", "耗时"},

	Address: Text{"Address", "地址"}, Build: Text{"Agent", "Agent 版本"}, Labels: Text{"Labels", "标签"},
	LastSeen: Text{"Last seen", "最近上报"}, System: Text{"System", "系统"}, Notes: Text{"Notes", "备注"},
	At: Text{"Time", "时间"}, Event: Text{"Event", "事件"}, Cause: Text{"Cause", "原因"}, Count: Text{"Count", "数量"},
	Severity: Text{"Severity", "级别"},

	WrongNow: Text{"Wrong now", "当前异常"},
	NothingWrong: Text{
		"Nothing is wrong with {n} processes.", "{n} 个进程均无异常。",
	},
	NothingRuns: Text{"No task and no rollout runs.", "没有正在执行的任务或分批发布。"},
	NotEnded:    Text{"not ended", "未结束"},
	ExitCode:    Text{"exit status {n}", "退出码 {n}"}, Signal: Text{"signal {n}", "信号 {n}"},
	RunningNow: Text{"Running now", "正在执行"}, LastChanges: Text{"Last events", "最近事件"},
	Remedy: Text{"What to do", "处理方法"}, Details: Text{"Details", "详情"}, Log: Text{"Log", "日志"},
	Spec: Text{"Spec", "进程配置"}, LastExit: Text{"Last exit", "上次退出"}, Health: Text{"Health", "健康检查"},

	Batch: Text{"Batch", "批次"}, Failures: Text{"Failures", "失败"},
	Plan: Text{"Plan", "变更计划"}, Reason: Text{"Reason", "原因"}, Name: Text{"Name", "名称"},
	Namespace: Text{"Namespace", "命名空间"}, Results: Text{"Results", "执行结果"},
	ByMessage: Text{"Failures by message", "按信息归类的失败"}, LastWords: Text{"Last words", "退出前输出"},
	RevisionOf: Text{"revision {n}", "修订版本 {n}"}, Also: Text{"Also", "另有"},
	AllEvents: Text{"All these events", "查看全部事件"}, Ago: Text{"just now", "刚刚"},
	All: Text{"all", "全部"}, Yes: Text{"yes", "是"}, No: Text{"no", "否"},
	Actions: Text{"Actions", "操作"}, FirstFailures: Text{"Only the first {n} failures are grouped.", "仅归类前 {n} 个失败。"},
}

// Act holds the words of actions and of their confirmation.
//
//nolint:gochecknoglobals // constant texts
var Act = struct {
	Start, Stop, Restart, Reload, Kill, Retry, Host, Unhost              Text
	Ask, AskOne, AskHost                                                 Text
	Cancel, TypeCount, WrongCount, Targets, Away, NoneChosen, Chosen     Text
	ReasonAt, ReasonMissing                                              Text
	All, Pause, Resume, Abort, Approve, Undo, CancelTask, Missing        Text
	Confirm, How, AtOnce, InBatches, BatchHosts, Canaries, Bake, MayFail Text
	Canary, AbortNote, UndoNote, AgainFailed, RetryFailed, OnlyOwn       Text
	CopyHosts, Beside, WithAll                                           Text
}{
	Beside: Text{"Operations beside it", "期间的其他操作"},
	Start:  Text{"Start", "启动"}, Stop: Text{"Stop", "停止"}, Restart: Text{"Restart", "重启"},
	Reload: Text{"Reload", "重载"}, Kill: Text{"Kill", "强制停止"}, Retry: Text{"Retry", "重试"},
	Host: Text{"Host", "托管"}, Unhost: Text{"Unhost", "取消托管"},

	Ask:     Text{"{op} {n} processes on {hosts} hosts?", "{op} {hosts} 台主机上的 {n} 个进程？"},
	AskOne:  Text{"{op} {process} on {host}?", "{op} {host} 上的 {process}？"},
	AskHost: Text{"{op} {n} processes on {host}?", "{op} {host} 上的 {n} 个进程？"},
	Cancel:  Text{"Cancel", "取消"}, Confirm: Text{"Confirm", "确认"},
	TypeCount: Text{
		"Type the number of processes to confirm:", "请输入进程数量以确认：",
	},
	ReasonAt: Text{"Hosts of {at} need a reason.", "{at} 的主机要求填写理由。"},
	ReasonMissing: Text{
		"The reason is missing. An operation on hosts of {at} needs one.", "缺少理由：对 {at} 的主机执行操作要求填写理由。",
	},
	WrongCount: Text{"That is not the number of processes.", "数量与进程数不符。"},
	Targets:    Text{"Targets", "执行对象"},
	Away:       Text{"On hosts that are away, where it will fail: {n}.", "其中 {n} 个所在主机失联，将会失败。"},
	NoneChosen: Text{"You have chosen no process.", "尚未选择进程。"},
	Chosen:     Text{"With the chosen processes:", "对所选进程执行："},

	WithAll: Text{"With all {n} processes that match the filter:", "对符合筛选条件的全部 {n} 个进程执行："},

	All:   Text{"All processes that match the filter", "符合筛选条件的全部进程"},
	Pause: Text{"Pause", "暂停"}, Resume: Text{"Resume", "继续"}, Abort: Text{"Abort", "终止"},
	Approve: Text{"Approve", "批准"}, Undo: Text{"Undo", "撤销"},
	CancelTask: Text{"Cancel what has not begun", "取消尚未开始的部分"},
	Missing:    Text{"You lack a right for some of these:", "部分操作缺少权限："},

	How: Text{"How", "执行方式"}, AtOnce: Text{"On all {hosts} hosts at once", "{hosts} 台主机同时执行"},
	InBatches:  Text{"In batches, as a rollout", "分批执行（分批发布）"},
	BatchHosts: Text{"Hosts of a batch, or a share", "每批主机数或比例"},
	Canaries:   Text{"Canary hosts, which go first", "灰度主机数（先执行）"},
	Bake:       Text{"Watch each batch for", "每批观察期"},
	MayFail:    Text{"Hosts that may fail", "允许失败的主机数"},
	AbortNote: Text{
		"{n} of {hosts} hosts have begun, and stay as they are. The others do not begin.",
		"{hosts} 台主机中已有 {n} 台开始执行，它们将保持现状；其余主机不再执行。",
	},
	UndoNote: Text{
		"A new rollout gives the hosts back what they had before this one, which ends.", "将新建一个分批发布，把各主机恢复到本次发布之前的状态；本次发布随之结束。",
	},
	Canary:      Text{"canary", "灰度"},
	OnlyOwn:     Text{"Only who began this, or an administrator:", "仅限发起人或管理员："},
	RetryFailed: Text{"Retry the failed hosts", "对失败的主机重试"},
	CopyHosts:   Text{"Copy the hosts:", "复制主机："},
	AgainFailed: Text{"{op} the {n} failed ones again", "对失败的 {n} 个重新{op}"},
}

// States are the words of the states of processes, hosts, tasks, rollouts and outcomes, by their ids.
//
//nolint:gochecknoglobals // constant texts
var States = map[string]Text{
	"unknown": {"unknown", "未知"}, "stopped": {"stopped", "已停止"}, "scheduled": {"scheduled", "已排期"},
	"starting": {"starting", "启动中"}, "running": {"running", "运行中"}, "flapping": {"flapping", "频繁重启"},
	"unhealthy": {"unhealthy", "健康检查异常"}, "not-ready": {"not ready", "未就绪"}, "stopping": {"stopping", "停止中"},
	"backoff": {"backing off", "等待重试"}, "given-up": {"given up", "已放弃拉起"}, "finished": {"finished", "已结束"},
	"operating": {"operating", "操作中"}, "stale": {"out of date", "数据过期"},
	"online": {"online", "在线"}, "away": {"away", "失联"},
	"done": {"done", "已完成"}, "held": {"waits for approval", "等待批准"}, "paused": {"paused", "已暂停"},
	"aborted": {"aborted", "已终止"}, doneWithFailures: {"done with failures", "已完成，有失败"},
	"waiting": {"waiting", "等待中"}, "begun": {"under way", "执行中"}, "baking": {"being watched", "观察中"},
	"skipped": {"skipped", "已略过"}, "relaunched": {"relaunched", "被重新拉起"},
	"pending": {"pending", "等待中"}, "ok": {"ok", "成功"}, "failed": {"failed", "失败"},
	"agent-unavailable": {"host unavailable", "主机不可用"}, "already-running": {"already running", "已在运行"},
	"not-running": {"not running", "未运行"}, "illegal-op": {"no such operation", "非法操作"},
	"check-failed": {"check failed", "检查失败"}, "already-registered": {"already registered", "已注册"},
	"cancelled": {"cancelled", "已取消"},
	"denied":    {"denied", "拒绝"},
	"open":      {"open", "可用"}, "spent": {"used up", "已用完"}, "expired": {"expired", "已过期"},
	"revoked": {"revoked", "已吊销"},
	"enabled": {"enabled", "已启用"}, "disabled": {"disabled", "已停用"}, "ready": {"ready", "就绪"},
	"not-serving": {"not ready", "未就绪"}, "present": {"present", "当前"}, "next": {"next", "下一个"},
	"former": {"former", "旧"}, "active": {"active", "生效中"}, "ended": {"ended", "已结束"},
	"critical": {"critical", "严重"}, "problem": {"problem", "问题"},
	"failing": {"failing", "持续失败"}, "warning": {"warning", "警告"}, "notice": {"notice", "提示"},
}

// doneWithFailures is what lists show of a task or a rollout that is done on some targets only.
const doneWithFailures = "done-with-failures"

// Result returns the state of a task or a rollout, as lists show it.
func Result(state string, failed int) string {
	if state == "done" && failed > 0 {
		return doneWithFailures
	}
	return state
}

// State returns the word of a state; the id itself if it has none.
func State(id string) Text {
	if t, ok := States[id]; ok {
		return t
	}
	return Text{id, id}
}

// EventState returns the state that an event leads to, as lists of processes name it. Some kinds are such a state of a
// process that runs on.
func EventState(kind, to string) string {
	switch kind {
	case "unhealthy", "not-ready", "flapping":
		return kind
	}
	return to
}

// Class says how good a state is. It is the name of the class in the style sheet of the console.
type Class string

// The classes of states. Idle is neither good nor bad, and Unsure is a state that nobody knows at present.
const (
	Good   Class = "good"
	Busy   Class = "busy"
	Warn   Class = "warn"
	Bad    Class = "bad"
	Unsure Class = "unsure"
	Idle   Class = "idle"
)

// ClassOf returns the class of a state, an outcome or a severity by its id.
func ClassOf(id string) Class {
	switch id {
	case "running", "online", "ok", "done", "ready", "open", "enabled", "present":
		return Good
	case "starting", "stopping", "operating", "pending", "begun", "baking", "next":
		return Busy
	case "unhealthy", "not-ready", "warning", "held", "paused", "agent-unavailable", "relaunched":
		return Warn
	case "flapping", "backoff", "given-up", "failed", "failing", "critical", "check-failed", "aborted", "denied",
		"problem", "not-serving", doneWithFailures:
		return Bad
	case "unknown", "away", "stale":
		return Unsure
	}
	return Idle
}

// Mark is the shape of a class, the same on pages and terminals.
func (c Class) Mark() string {
	switch c {
	case Good:
		return "●"
	case Busy:
		return "◐"
	case Warn:
		return "▲"
	case Bad:
		return "✖"
	case Unsure:
		return "?"
	case Idle:
	}
	return "■"
}

// Keys holds the words of the keys of the console and of the palette.
//
//nolint:gochecknoglobals // constant texts
var Keys = struct {
	Title, Help, Off, Close, Jump, JumpHint, NoPlace, Pages, Rows, Other         Text
	Palette, Filter, Next, Open, Mark, Range, Actions, Logs, Link, Command, Back Text
	Copied, Process, Host, Task, Rollout                                         Text
}{
	Title: Text{"Keys", "快捷键"}, Help: Text{"This list", "显示本列表"}, Off: Text{"Use these keys", "启用快捷键"},
	Close: Text{"Close", "关闭"}, Jump: Text{"Jump to", "跳转"},
	JumpHint: Text{"a page, process, host or task", "页面、进程、主机或任务"},
	NoPlace:  Text{"Nothing has this name.", "没有匹配的内容。"},
	Pages:    Text{"Pages", "页面"}, Rows: Text{"Rows", "行"}, Other: Text{"Page", "当前页"},

	Palette: Text{"Jump to any page, process, host or task", "跳转到任意页面、进程、主机或任务"},
	Filter:  Text{"To the filter", "定位到筛选框"}, Next: Text{"Next and previous row", "下一行、上一行"},
	Open: Text{"Open the row", "打开当前行"}, Mark: Text{"Mark the row", "勾选当前行"},
	Range: Text{"Mark all rows from the last mark", "从上次勾选处起连续勾选"}, Actions: Text{"To the actions", "定位到操作按钮"},
	Logs: Text{"Logs of the row", "查看当前行的日志"}, Link: Text{"Copy the link of this page", "复制本页链接"},
	Command: Text{"Copy the command", "复制对应的命令"}, Back: Text{"Close, or leave the row", "关闭或取消选中"},

	Copied: Text{"Copied", "已复制"}, Process: Text{"process", "进程"}, Host: Text{"host", "主机"},
	Task: Text{"task", "任务"}, Rollout: Text{"rollout", "分批发布"},
}

// Usage holds the words about what processes use.
//
//nolint:gochecknoglobals // constant texts
var Usage = struct {
	Title, Quarter, Hour, Day, Now, Most, Chart, None, Legend, Longer Text
}{
	Title: Text{"Usage", "资源用量"}, Quarter: Text{"15 minutes", "15 分钟"}, Hour: Text{"1 hour", "1 小时"},
	Day: Text{"24 hours", "24 小时"}, Now: Text{"now {value}", "当前 {value}"}, Most: Text{"at most {value}", "最高 {value}"},
	Chart: Text{
		"{name}: now {now}, at least {least}, at most {most}. Restarts: {restarts}. Not measured: {gaps} of {steps} steps.",
		"{name}：当前 {now}，最低 {least}，最高 {most}。重启次数：{restarts}。{steps} 个时间段中有 {gaps} 个没有测量数据。",
	},
	None:   Text{"Nobody has measured the process in this time.", "这段时间内没有该进程的测量数据。"},
	Longer: Text{"Usage over a longer time, in Grafana", "在 Grafana 中查看更长时间的用量"},
	Legend: Text{"A vertical line is a restart. A gap was not measured.", "竖线表示重启，曲线中断处没有测量数据。"},
}

// Session holds the words of the sign-in and of the sessions of a person.
//
//nolint:gochecknoglobals // constant texts
var Session = struct {
	TooMany, Again                                           Text
	Mine, Device, Address, Since, Seen, Here, End, EndOthers Text
}{
	TooMany: Text{
		"Too many sign-ins from this address have failed. Try again in {n} s.",
		"该地址登录失败次数过多，请 {n} 秒后再试。",
	},
	Again: Text{
		"This needs a sign-in that is at most 15 minutes old. Sign in again; then you return to this page.",
		"此操作要求 15 分钟内登录过。请重新登录，登录后将返回本页。",
	},

	Mine: Text{"My sessions", "我的会话"}, Device: Text{"Browser", "浏览器"}, Address: Text{"Address", "地址"},
	Since: Text{"Signed in", "登录时间"}, Seen: Text{"Last seen", "最近活动"}, Here: Text{"this browser", "当前浏览器"},
	End: Text{"End", "结束"}, EndOthers: Text{"End all others", "结束其他所有会话"},
}

// Device holds the words of the page on which a person signs a command line in.
//
//nolint:gochecknoglobals // constant texts
var Device = struct {
	Title, Ask, Next, Wrong, TooMany, Warning, Name, Address, Until, Confirm, Reject, Done, Rejected Text
}{
	Title: Text{"Sign in a command line", "登录命令行"},
	Ask: Text{
		"Type the eight letters that \"drover login\" shows in your terminal:",
		"请输入终端中 drover login 显示的八个字母：",
	},
	Next: Text{"Next", "下一步"},
	Wrong: Text{
		"No command line waits with these letters. Compare them with your terminal, or run the command again.",
		"没有命令行在等待这组字母。请与终端核对，或重新运行该命令。",
	},
	TooMany: Text{"Too many attempts. Wait a minute, and try again.", "尝试次数过多，请一分钟后再试。"},
	Warning: Text{
		"Sign it in only if you started this yourself just now. It then has all your rights for 12 hours.",
		"仅当你本人刚刚发起此登录时才确认。确认后，该命令行将在 12 小时内拥有你的全部权限。",
	},
	Name: Text{"It says that it is", "命令行自称"}, Address: Text{"Its address", "来源地址"},
	Until:   Text{"Valid until", "有效期至"},
	Confirm: Text{"Sign in as {user}", "以 {user} 身份登录"}, Reject: Text{"Reject", "拒绝"},
	Done:     Text{"The command line is signed in. You can close this page.", "命令行已登录，可以关闭此页面。"},
	Rejected: Text{"The command line is not signed in.", "已拒绝，命令行未登录。"},
}

// Provider holds the words of the sign-in with an identity provider.
//
//nolint:gochecknoglobals // constant texts
var Provider = struct {
	SignIn, Away, Refused, Stray, Unknown, Disabled, Old, Groups, OfGroups Text
}{
	SignIn: Text{"Sign in with {provider}", "通过 {provider} 登录"},
	Away: Text{
		"{provider} does not answer. Try again in a minute, or sign in by a link.",
		"{provider} 没有应答。请一分钟后重试，或使用登录链接。",
	},
	Refused: Text{
		"{provider} did not sign you in, or its answer is not valid. Try again. The audit log of the server has the reason.",
		"{provider} 未能让你登录，或其应答无效，请重试。原因见服务器的审计日志。",
	},
	Stray: Text{
		"No sign-in of this browser waits for this answer of {provider}. Begin again here.",
		"此浏览器没有等待 {provider} 应答的登录。请在此重新开始。",
	},
	Unknown: Text{
		"drover does not know {user}, and no group of yours has rights here. Ask an administrator.",
		"drover 中没有用户 {user}，且你所在的用户组在此没有权限。请联系管理员。",
	},
	Disabled: Text{"{user} is disabled. Ask an administrator.", "用户 {user} 已被禁用。请联系管理员。"},
	Old: Text{
		"{provider} did not ask you to sign in again, so this is not a recent sign-in. Sign in by a link.",
		"{provider} 没有要求你重新登录，因此不算最近登录。请使用登录链接。",
	},
	Groups:   Text{"Groups of the identity provider", "身份提供方的用户组"},
	OfGroups: Text{"Rights by these groups", "这些用户组带来的权限"},
}
