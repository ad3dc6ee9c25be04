package words

// Page holds the words of the frame around every page of the console.
//
//nolint:gochecknoglobals // constant texts
var Page = struct {
	Overview, Processes, Hosts, Tasks, Rollouts, Events                       Text
	SignIn, SignOut, SignInAs, SignInCommand, SignInCode, LinkUsed            Text
	Theme, Skip, Live, Lost, Time, NotFound, Forbidden, Failed, Again         Text
	Filter, Apply, Clear, More, First, Nothing, NothingMatches, SameByCommand Text
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
		"This link has expired, or somebody has used it. Ask for another link.",
		"该链接已过期或已被使用，请重新获取。",
	},

	Theme: Text{"Light or dark", "浅色或深色"}, Skip: Text{"Skip to the content", "跳到正文"},
	Live:     Text{"live", "实时"},
	Lost:     Text{"The server does not answer since {time}. You see the state of that moment.", "自 {time} 起无法连接服务器，以下为当时的状态。"},
	Time:     Text{"Times are in the time zone of this browser: {zone}", "时间按此浏览器的时区显示：{zone}"},
	NotFound: Text{"There is nothing here that you may see.", "这里没有你有权查看的内容。"},
	Forbidden: Text{
		"You may not do this. An administrator grants rights with: drover user grant",
		"你无权执行此操作。管理员可用 drover user grant 授权。",
	},
	Failed: Text{"The server could not answer", "服务器未能应答"}, Again: Text{"Try again", "重试"},

	Filter: Text{"Filter", "筛选"}, Apply: Text{"Show", "显示"}, Clear: Text{"Clear the filter", "清除筛选"},
	More: Text{"Next page", "下一页"}, First: Text{"First page", "第一页"},
	Nothing:        Text{"There is none yet.", "暂无内容。"},
	NothingMatches: Text{"Nothing matches the filter.", "没有符合筛选条件的内容。"},
	SameByCommand:  Text{"The same by command:", "对应的命令："},
}

// Head holds the words of headings and columns.
//
//nolint:gochecknoglobals // constant texts
var Head = struct {
	Process, Host, State, Since, PID, CPU, Memory, Restarts, Why, Version, Hosted, Message, Uptime Text
	Task, Operation, Subject, User, Created, Progress, Outcome, Started, Took                      Text
	Address, Build, Labels, LastSeen, System, Notes, At, Event, Cause, Count, Severity             Text
	WrongNow, NothingWrong, RunningNow, LastChanges, Remedy, Details, Log, Spec, LastExit, Health  Text
	Batch, Canary, Failures, Plan, Reason, Name, Namespace, Results, ByMessage, LastWords, Actions Text
}{
	Process: Text{"Process", "进程"}, Host: Text{"Host", "主机"}, State: Text{"State", "状态"},
	Since: Text{"Since", "起始时间"}, PID: Text{"PID", "PID"}, CPU: Text{"CPU", "CPU"}, Memory: Text{"Memory", "内存"},
	Restarts: Text{"Restarts", "重启次数"}, Why: Text{"Why", "原因"}, Version: Text{"Version", "版本"},
	Hosted: Text{"Hosted", "托管"}, Message: Text{"Message", "信息"}, Uptime: Text{"Uptime", "运行时长"},

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
	RunningNow: Text{"Running now", "正在执行"}, LastChanges: Text{"Last events", "最近事件"},
	Remedy: Text{"What to do", "处理方法"}, Details: Text{"Details", "详情"}, Log: Text{"Log", "日志"},
	Spec: Text{"Spec", "进程配置"}, LastExit: Text{"Last exit", "上次退出"}, Health: Text{"Health", "健康检查"},

	Batch: Text{"Batch", "批次"}, Canary: Text{"Canary", "灰度"}, Failures: Text{"Failures", "失败"},
	Plan: Text{"Plan", "计划"}, Reason: Text{"Reason", "原因"}, Name: Text{"Name", "名称"},
	Namespace: Text{"Namespace", "命名空间"}, Results: Text{"Results", "执行结果"},
	ByMessage: Text{"Failures by message", "按信息归类的失败"}, LastWords: Text{"Last words", "退出前输出"},
	Actions: Text{"Actions", "操作"},
}

// Act holds the words of actions and of their confirmation.
//
//nolint:gochecknoglobals // constant texts
var Act = struct {
	Start, Stop, Restart, Reload, Kill, Retry, Host, Unhost               Text
	Ask, Cancel, TypeCount, WrongCount, Targets, Away, NoneChosen, Chosen Text
	All, Pause, Resume, Abort, Approve, Undo, CancelTask                  Text
}{
	Start: Text{"Start", "启动"}, Stop: Text{"Stop", "停止"}, Restart: Text{"Restart", "重启"},
	Reload: Text{"Reload", "重载"}, Kill: Text{"Kill", "强制停止"}, Retry: Text{"Retry", "重试"},
	Host: Text{"Host", "托管"}, Unhost: Text{"Unhost", "取消托管"},

	Ask:    Text{"{op}: {n} processes on {hosts} hosts?", "{op}：{hosts} 台主机上的 {n} 个进程？"},
	Cancel: Text{"Cancel", "取消"},
	TypeCount: Text{
		"Type the number of processes to confirm:", "请输入进程数量以确认：",
	},
	WrongCount: Text{"That is not the number of processes.", "数量与进程数不符。"},
	Targets:    Text{"Targets", "执行对象"},
	Away:       Text{"{n} of them are on hosts that are away, and will fail.", "其中 {n} 个所在主机失联，将会失败。"},
	NoneChosen: Text{"You have chosen no process.", "尚未选择进程。"},
	Chosen:     Text{"With the chosen processes:", "对所选进程执行："},

	All:   Text{"All processes that match the filter", "符合筛选条件的全部进程"},
	Pause: Text{"Pause", "暂停"}, Resume: Text{"Resume", "继续"}, Abort: Text{"Abort", "终止"},
	Approve: Text{"Approve", "批准"}, Undo: Text{"Undo", "撤销"},
	CancelTask: Text{"Cancel what has not begun", "取消尚未开始的部分"},
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
	"aborted": {"aborted", "已终止"},
	"pending": {"pending", "等待中"}, "ok": {"ok", "成功"}, "failed": {"failed", "失败"},
	"agent-unavailable": {"host unavailable", "主机不可用"}, "already-running": {"already running", "已在运行"},
	"not-running": {"not running", "未运行"}, "illegal-op": {"no such operation", "非法操作"},
	"check-failed": {"check failed", "检查失败"}, "already-registered": {"already registered", "已注册"},
	"cancelled": {"cancelled", "已取消"},
	"critical":  {"critical", "严重"}, "warning": {"warning", "警告"}, "notice": {"notice", "提示"},
}

// State returns the word of a state; the id itself if it has none.
func State(id string) Text {
	if t, ok := States[id]; ok {
		return t
	}
	return Text{id, id}
}
