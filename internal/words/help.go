package words

import (
	"strings"
	"sync"
)

// Help are the first lines of the help of commands, and the headings of the help.
//
//nolint:gochecknoglobals // constant texts
var Help = []Text{
	// headings, the longer ones first
	{"Usage:", "用法："},
	{"Aliases:", "别名："},
	{"Examples:", "示例："},
	{"Available Commands:", "可用命令："},
	{"Additional Commands:", "其他命令："},
	{"Global Flags:", "全局选项："},
	{"Flags:", "选项："},
	{
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		`用 "{{.CommandPath}} [command] --help" 查看命令的详细帮助。`,
	},
	{"Processes:", "进程："},
	{"Tasks, events, hosts and audit:", "任务、事件、主机与审计："},
	{"Access:", "访问权限："},
	{"Servers:", "服务器："},

	// processes
	{"Run and watch processes on a fleet of hosts", "在大量主机上运行并监控进程"},
	{"List processes", "列出进程"},
	{"Show which processes use how much, live", "实时显示各进程的资源用量"},
	{"Tell whether a process is active", "判断进程是否在运行"},
	{"Tell whether a process has failed", "判断进程是否已失败"},
	{"Tell whether a user may do an operation, and by which right", "判断用户能否执行某操作，以及依据哪项权限"},
	{"Show the state of processes, and its cause", "显示进程的状态及其原因"},
	{"Explain why processes are not as they should be", "解释进程为什么异常"},
	{"Show what a process wrote", "显示进程的输出"},
	{"Wait until processes are running, ready or stopped", "等待进程运行、就绪或停止"},
	{"Start processes, and relaunch them if they exit", "启动进程，并在退出后自动拉起"},
	{"Stop processes, and no longer watch them", "停止进程，并不再监控"},
	{"Restart processes", "重启进程"},
	{"Reload the configuration of processes", "重载进程的配置"},
	{"Kill processes at once", "立即强制停止进程"},
	{"Ask hosts whether processes could start now", "询问主机：进程现在能否启动"},
	{
		"Exit codes: 0 all could start, 1 some could not, 4 no such process, 5 not allowed, 6 unreachable or timed out.",
		"退出码：0 全部可以启动，1 有的不能启动，4 进程不存在，5 没有权限，6 无法连接或超时。",
	},
	{"Send a signal to processes", "向进程发送信号"},
	{"Watch processes, and relaunch them if they exit", "托管进程：监控，并在退出后自动拉起"},
	{"No longer watch processes, and leave them as they are", "取消托管：不再监控，进程保持原样"},
	{"Retry processes that were given up", "重试已放弃拉起的进程"},
	{"Remove processes from drover, and leave them as they are", "从 drover 注销进程，进程保持原样"},
	{"Register a process and its spec on hosts", "在主机上注册进程及其配置"},
	{"Make processes as process files say", "按进程文件创建和更新进程"},
	{"Show what 'drover apply' would do, or how revisions differ", "显示 'drover apply' 的变更计划，或修订版本之间的差异"},
	{"Show processes as a process file", "以进程文件的形式显示进程"},
	{"Describe the fields of a process file", "说明进程文件的字段"},
	{"Change a process in an editor", "在编辑器中修改进程"},
	{"Make process files of what systemd or supervisord runs", "把 systemd 或 supervisord 运行的程序转换为进程文件"},
	{"Make a process file of units of systemd", "把 systemd 的单元转换为进程文件"},
	{"Make a process file of a configuration of supervisord", "把 supervisord 的配置转换为进程文件"},

	// tasks, rollouts, schedules and what has happened
	{"List, show, follow and cancel tasks", "列出、查看、跟踪和取消任务"},
	{"List tasks, newest first", "列出任务，最新的在前"},
	{"Show a task, and the result of each target", "显示任务及每个对象的执行结果"},
	{"Follow a task until it is done", "跟踪任务直到完成"},
	{"Cancel the targets of a task that have not begun", "取消任务中尚未开始的对象"},
	{"List, follow, pause, undo and end rollouts", "列出、跟踪、暂停、撤销和终止分批发布"},
	{"List rollouts, newest first", "列出分批发布，最新的在前"},
	{"Show a rollout, its failures by cause and each host", "显示分批发布、按原因归类的失败和每台主机"},
	{"Follow a rollout until it is done or paused", "跟踪分批发布直到完成或暂停"},
	{"Take the rollout of an apply back", "撤销一次 apply 的分批发布"},
	{"Begin no further batch", "暂停分批发布：不再开始新的批次"},
	{"Go on with a paused rollout", "继续已暂停的分批发布"},
	{"End a rollout", "终止分批发布"},
	{"Approve a rollout that waits for a person", "批准等待人工批准的分批发布"},
	{"Repeat the operation on the failed hosts", "在失败的主机上重试操作"},
	{"Speed a rollout up, or slow it down", "加快或放慢分批发布"},
	{"Begin operations at the times of a timetable", "按定时规则执行操作"},
	{"Begin an operation at the times of a timetable", "按定时规则执行一个操作"},
	{"List schedules", "列出定时操作"},
	{"Show a schedule, its next times and its last runs", "显示定时操作、下次时间和最近的运行"},
	{"Begin a run now, with your own rights", "以自己的权限立即运行一次"},
	{"Begin no run until somebody resumes the schedule", "暂停定时操作，直到有人恢复"},
	{"Go on with the next time of a paused schedule", "恢复已暂停的定时操作"},
	{"Remove a schedule; a run that goes on is not affected", "移除定时操作，不影响正在进行的运行"},
	{"List the events of processes, or follow them", "列出或跟踪进程的事件"},
	{"Show the timeline of processes, oldest first", "显示进程的时间线，最早的在前"},
	{"Show what differs between two moments", "显示两个时刻之间的差异"},
	{"List who changed the specs of a namespace, when and why", "列出命名空间的进程配置由谁、何时、为何修改"},
	{"Show how processes differ from their files", "显示进程与进程文件的差异"},
	{"List calls and denials, newest first", "列出调用和拒绝，最新的在前"},

	// hosts
	{"List the hosts that have joined", "列出已接入的主机"},
	{"Set and remove labels of hosts", "设置和移除主机的标签"},
	{"Remove hosts: disconnect them now and reject them if they reconnect", "移除主机：立即断开，并拒绝再次连接"},
	{"Have agents run another version, in batches", "分批升级 Agent 的版本"},
	{"Manage the tokens that hosts join with", "管理主机接入令牌"},
	{"Create a token that hosts join with, and print it once", "创建主机接入令牌，仅显示一次"},
	{"List tokens, newest first, without their secrets", "列出令牌（不含密钥），最新的在前"},
	{"Revoke a token now", "立即吊销令牌"},
	{"Replace the keys by which hosts trust this server", "更换主机信任本服务器所用的密钥"},
	{"List the keys, and how many hosts use them", "列出密钥及使用它们的主机数"},
	{"Advance a key rotation by one step, or by all of them", "把密钥轮换推进一步，或一次完成"},
	{"Discard a pending key, or retire an old one early", "丢弃待用的密钥，或提前停用旧密钥"},
	{"List and remove the proxies of areas", "列出和移除管控区域的 Proxy"},
	{"List the proxies that have joined, sorted by area and name", "列出已接入的 Proxy，按管控区域和名称排序"},
	{"Remove a proxy: disconnect it now and reject it if it reconnects", "移除 Proxy：立即断开，并拒绝它再次连接"},
	{"Versions of the agent that hosts can upgrade to", "主机可升级到的 Agent 版本"},
	{"List the versions that the server has", "列出服务器上的版本"},
	{"Add a signed program of the agent", "添加已签名的 Agent 程序"},
	{"Remove a version for an architecture", "移除某个架构的版本"},
	{"Make a release key", "生成发布密钥"},
	{"Sign a program of the agent with a release key", "用发布密钥为 Agent 程序签名"},

	// access
	{"Manage the apps that may call the API, and their rights", "管理可调用 API 的应用及其权限"},
	{"List apps", "列出应用"},
	{"Create an app, and print its secret once", "创建应用，密钥仅显示一次"},
	{"Show an app, its rights and when its secrets expire", "显示应用、权限和密钥的到期时间"},
	{"Change an app's note, powers or limits", "修改应用的备注、能力或限制"},
	{"Give an app rights", "为应用授权"},
	{"Remove rights from an app", "收回应用的权限"},
	{"Give an app a new secret, and keep the old one valid for a while", "为应用更换密钥，旧密钥在一段时间内仍有效"},
	{"Give an app a new secret, and revoke all others now", "为应用更换密钥，并立即吊销其他密钥"},
	{"Reject all calls of an app from now on", "停用应用：拒绝它的所有调用"},
	{"Accept calls of a disabled app again", "重新启用已停用的应用"},
	{"Manage users, their rights, and their tokens", "管理用户、权限和令牌"},
	{"List users", "列出用户"},
	{"Create a user", "创建用户"},
	{"Give a user rights or a role", "为用户授权或指定角色"},
	{"Remove rights from a user", "收回用户的权限"},
	{"Create a token for a user, and print it once", "为用户创建令牌，仅显示一次"},
	{"List the tokens and sessions of a user", "列出用户的令牌和会话"},
	{"End a token or a session of a user, by its id", "按 ID 终止用户的令牌或会话"},
	{"Reject all calls for a user, and end all tokens and sessions", "停用用户：拒绝该用户的所有调用，结束其全部令牌和会话"},
	{"Look at processes and operate on them, on one screen", "在一个屏幕上查看和操作进程"},
	{"Accept calls for a disabled user again", "重新启用已停用的用户"},
	{"Sign in to a server, or print a link that signs a browser in", "登录服务器，或输出用浏览器登录的链接"},
	{"End the sign-in of the current context", "退出当前上下文的登录"},
	{"List servers that you have signed in to, and choose one", "列出已登录的服务器，并选择其一"},
	{"List contexts; * marks the current one", "列出上下文，* 表示当前上下文"},
	{"Make a context the current one", "切换当前上下文"},
	{"End the sign-in of a context, and forget the context", "退出一个上下文的登录，并移除它"},

	// alarms and breakers
	{"Manage the addresses that receive alarms", "管理告警接收方"},
	{"List receivers, and the progress of each delivery", "列出告警接收方及投递进度"},
	{"Show a receiver, the progress of its delivery, and its last error", "显示告警接收方、投递进度和最近的错误"},
	{"Deliver alarms to an address, and print the secret that signs them", "向一个地址投递告警，并输出签名密钥"},
	{"Change the address of a receiver, which alarms it gets, or its note", "修改接收方的地址、告警范围或备注"},
	{"Sign with a new secret from now on, and print the secret once", "更换签名密钥，仅显示一次"},
	{"Delete a receiver: no longer deliver alarms to it", "删除告警接收方，不再向它投递"},
	{"Deliver a test alarm now, and show the result", "立即投递一条测试告警，并显示结果"},
	{"Withhold alarms for some time", "在一段时间内静默告警"},
	{"List the silences that have not ended", "列出尚未结束的静默规则"},
	{"Show a silence, and how many alarms it has withheld", "显示静默规则及暂缓的告警数"},
	{"End a silence now, and deliver the withheld alarms that still hold", "立即结束静默，并投递仍然有效的暂缓告警"},
	{"List and reset the breakers that withhold relaunches on all hosts", "列出和重置在全部主机上暂停拉起的熔断"},
	{"List the open breakers", "列出打开的熔断"},
	{"Close a breaker: relaunch the process again", "关闭熔断：恢复拉起该进程"},

	// servers
	{"Run a server that agents on other machines join", "运行服务器，供其他机器上的 Agent 接入"},
	{
		"Run a server and one agent in one process, on loopback, without configuration",
		"在一个进程中运行服务器和一个 Agent，只用本机回环地址，无需配置",
	},
	{"Serve the agents of an area that have no route to the servers", "为无法直连服务器的管控区域的 Agent 提供服务"},
	{"Serve the agents of an area, as 'drover proxy' does", "为一个管控区域的 Agent 提供服务"},
	{"Make this host a proxy of an area", "把本机设为管控区域的 Proxy"},
	{"Check the configuration of a server or a proxy", "检查服务器或 Proxy 的配置"},
	{"Validate a configuration file and list every error", "校验配置文件，列出所有错误"},
	{"Copy the database of a server", "复制服务器的数据库"},
	{"Back up a SQLite database while the server runs", "在服务器运行时备份 SQLite 数据库"},
	{"Copy a SQLite database into an empty PostgreSQL database", "把 SQLite 数据库复制到空的 PostgreSQL 数据库"},
	{"Bind a database whose keys are lost to the keys of this data directory", "把密钥已丢失的数据库绑定到本数据目录的密钥"},
	{"Copy the keys of a fleet from one server to another", "在服务器之间复制密钥"},
	{"Export the keys of the server on this host to a file", "把本机服务器的密钥导出到文件"},
	{"Import the keys that another server of the fleet has exported", "导入其他服务器导出的密钥"},
	{"Generate the configuration of a NATS broker that replaces the embedded one", "生成替代内置 broker 的 NATS 配置"},
	{"Ask the server on this host whether it is ready, for a health check", "查询本机服务器是否就绪，用于健康检查"},
	{"Check the installation, and say how to mend it", "检查安装情况，并给出处理方法"},
	{"Print the version of this binary", "显示本程序的版本"},
	{
		"A token makes new hosts: nobody joins with it under the name of a known host. If a host has lost its disk, " +
			"--replaces makes a token for that host, which must be offline. The host that joins with it gets the " +
			"processes, the labels and the history of that host.",
		"令牌只用于接入新主机，不能用它以已知主机的名称接入。主机丢失磁盘时，用 --replaces 为它创建令牌，旧主机必须已离线。\n" +
			"用该令牌接入的主机取得旧主机的进程、标签和历史记录。",
	},
}

// paragraphs finds the paragraphs of the help by their English words.
//
//nolint:gochecknoglobals // it never changes
var paragraphs = sync.OnceValue(func() map[string]Text {
	all := map[string]Text{}
	for _, list := range [][]Text{Help, LongProcesses, LongServers} {
		for _, t := range list {
			all[strings.TrimSuffix(t.en, ".")] = t
		}
	}
	return all
})

// HelpParagraph returns a paragraph of the help in a language, however its lines are broken; ok is false if the
// catalogue does not have the paragraph.
func HelpParagraph(english string, l Lang) (text string, ok bool) {
	t, ok := paragraphs()[strings.TrimSuffix(strings.Join(strings.Fields(english), " "), ".")]
	if !ok || l == English {
		return english, ok
	}
	return t.In(l), true
}
