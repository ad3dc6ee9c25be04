package words

import (
	"slices"
	"strings"
)

// Kinds are the words of the kinds of events, by their ids.
//
//nolint:gochecknoglobals // constant texts
var Kinds = map[string]Text{
	"started": {"started", "已启动"}, "found": {"found running", "发现已在运行"}, "restarted": {"restarted", "已重启"},
	"exited": {"exited", "已退出"}, "stopped": {"stopped", "已停止"}, "killed": {"killed", "已强制停止"},
	"main-pid-changed": {"main process changed", "主进程已更换"},
	"leftovers-ended":  {"leftovers ended", "已清理残留进程"},
	"oom-killed":       {"child out of memory", "子进程因内存不足被终止"},
	"relaunched":       {"relaunched", "已自动拉起"}, "relaunch-failed": {"relaunch failed", "拉起失败"},
	"given-up": {"given up", "已放弃拉起"}, "retried": {"retry requested", "已请求重试"},
	"hosted": {"hosted", "已托管"}, "unhosted": {"no longer hosted", "已取消托管"},
	"registered": {"registered", "已注册"}, "updated": {"spec changed", "进程配置已更新"},
	"unregistered": {"unregistered", "已注销"}, "reloaded": {"reloaded", "已重载"}, "signalled": {"signal sent", "已发送信号"},
	"operation-failed":     {"operation failed", "操作失败"},
	"limit-exceeded":       {"limit exceeded", "超出限制"},
	"group-limit-exceeded": {"limit of the group exceeded", "超出进程组限制"},
	"taken-down":           {"ended by drover", "已由 drover 终止"},
	"run-started":          {"run began", "定时运行开始"}, "run-ended": {"run succeeded", "定时运行成功"},
	"run-failed": {"run failed", "定时运行失败"}, "run-skipped": {"run skipped", "定时运行被跳过"},
	"run-missed": {"run missed", "错过定时运行"},
	"unhealthy":  {"unhealthy", "健康检查异常"}, "healthy": {"healthy again", "健康检查恢复正常"},
	"not-ready": {"not ready in time", "未按时就绪"}, "ready": {"ready", "已就绪"},
	"config-drifted":  {"configuration drifted", "配置已漂移"},
	"config-restored": {"configuration restored", "配置已恢复一致"},
	"flapping":        {"flapping", "频繁重启"}, "steady": {"steady again", "已恢复稳定"},
	"breaker-opened":       {"relaunches withheld", "熔断打开，暂停拉起"},
	"breaker-closed":       {"relaunches resumed", "熔断关闭，恢复拉起"},
	"schedule-failed":      {"schedule failed", "定时操作执行失败"},
	"schedule-recovered":   {"schedule recovered", "定时操作已恢复"},
	"rollout-paused":       {"rollout paused", "分批发布已暂停"},
	"rollout-held":         {"rollout waits for an approval", "分批发布等待批准"},
	"rollout-resumed":      {"rollout goes on", "分批发布继续"},
	"rollout-done":         {"rollout done", "分批发布已完成"},
	"rollout-failed":       {"rollout failed", "分批发布失败"},
	"rollout-aborted":      {"rollout aborted", "分批发布已终止"},
	"host-away":            {"host away", "主机失联"},
	"host-back":            {"host back", "主机恢复连接"},
	"host-removed":         {"host removed", "主机已移除"},
	"agent-upgraded":       {"agent upgraded", "Agent 已升级"},
	"agent-upgrade-failed": {"agent upgrade failed", "Agent 升级失败"},
	"events-lost":          {"events lost", "事件丢失"},
}

// Actors are the words of who caused an event that nobody requested, by their ids.
//
//nolint:gochecknoglobals // constant texts
var Actors = map[string]Text{
	"caller": {"caller", "调用方"}, "policy": {"by policy", "按策略"}, "kernel": {"kernel", "内核"},
	"self": {"itself", "进程自身"}, "outside": {"outside drover", "drover 之外"},
}

// Operations are the words of operations, by their ids.
//
//nolint:gochecknoglobals // constant texts
var Operations = map[string]Text{
	"start": {"start", "启动"}, "stop": {"stop", "停止"}, "restart": {"restart", "重启"}, "reload": {"reload", "重载"},
	"preflight": {"preflight", "启动前检查"},
	"kill":      {"kill", "强制停止"}, "signal": {"send a signal", "发送信号"}, "host": {"host", "托管"},
	"unhost": {"unhost", "取消托管"}, "retry": {"retry", "重试"}, "query": {"query", "查询"},
	"register": {"register", "注册"}, "update": {"update", "更新"}, "unregister": {"unregister", "注销"},
	"apply": {"apply", "变更"}, "set-groups": {"set process groups", "设置进程组"},
	"upgrade": {"upgrade the agent", "升级 Agent"},
}

// Actions are the words of what calls do, by the ids of the audit log.
//
//nolint:gochecknoglobals // constant texts
var Actions = map[string]Text{
	"processes.list": {"list processes", "查询进程列表"}, "processes.counts": {"count processes", "统计进程"},
	"processes.overview": {"look at the overview", "查看概览"}, "processes.get": {"look at a process", "查看进程"},
	"processes.logs": {"read a log", "读取日志"}, "processes.usage": {"look at the usage", "查看资源用量"},
	"namespaces.get": {"read a process file", "查看进程文件"}, "namespaces.apply": {"apply a process file", "按进程文件变更"},
	"namespaces.revisions": {"list revisions", "查询修订版本列表"}, "namespaces.diff": {"compare revisions", "比较修订版本"},
	"changes.list": {"look at changes", "查看变更"}, "why.list": {"ask why", "查询原因"},
	"drift.list": {"look for drift", "查询漂移"},
	"hosts.list": {"list hosts", "查询主机列表"}, "hosts.counts": {"count hosts", "统计主机数"},
	"hosts.label":      {"label hosts", "设置主机标签"},
	"hosts.prometheus": {"list scrape targets", "查询监控目标"}, "hosts.remove": {"remove a host", "移除主机"},
	"hosts.upgrade": {"upgrade agents", "升级 Agent"}, "hosts.copy": {"refuse a copied host", "拒绝复制的主机"},
	"proxies.list": {"list proxies", "查询 Proxy 列表"}, "proxies.remove": {"remove a proxy", "移除 Proxy"},
	"join": {"join", "接入"}, "fabric": {"connect to the message bus", "连接消息总线"},
	"tokens.create": {"make a join token", "生成接入令牌"}, "tokens.list": {"list join tokens", "查询接入令牌列表"},
	"tokens.get": {"look at a join token", "查看接入令牌"}, "tokens.revoke": {"revoke a join token", "吊销接入令牌"},
	"keys.list": {"list keys", "查询密钥列表"}, "keys.rotate": {"rotate keys", "轮换密钥"}, "keys.drop": {"drop a key", "移除密钥"},
	"events.list": {"list events", "查询事件列表"}, "events.stream": {"follow events", "跟踪事件"},

	"tasks.create": {"operate", "操作进程"}, "tasks.list": {"list tasks", "查询任务列表"},
	"tasks.get": {"look at a task", "查看任务"}, "tasks.results": {"list results", "查询执行结果"},
	"tasks.cancel":      {"cancel a task", "取消任务"},
	"selections.create": {"choose processes", "选择进程"}, "selections.get": {"look at a choice", "查看所选进程"},
	"rollouts.list": {"list rollouts", "查询分批发布列表"}, "rollouts.get": {"look at a rollout", "查看分批发布"},
	"rollouts.pause": {"pause a rollout", "暂停分批发布"}, "rollouts.resume": {"resume a rollout", "继续分批发布"},
	"rollouts.abort": {"abort a rollout", "终止分批发布"}, "rollouts.retry": {"retry failed hosts", "对失败的主机重试"},
	"rollouts.pace":    {"change the pace of a rollout", "调整分批发布的节奏"},
	"rollouts.approve": {"approve a rollout", "批准分批发布"}, "rollouts.undo": {"undo a rollout", "撤销分批发布"},
	"rollouts.batch": {"begin a batch", "开始一个批次"}, "upkeep": {"keep as the file says", "按进程文件维持"},
	"schedules.create": {"create a schedule", "创建定时操作"}, "schedules.list": {"list schedules", "查询定时操作列表"},
	"schedules.get": {"look at a schedule", "查看定时操作"}, "schedules.pause": {"pause a schedule", "暂停定时操作"},
	"schedules.resume": {"resume a schedule", "继续定时操作"}, "schedules.run": {"run a schedule", "执行定时操作"},
	"schedules.remove": {"remove a schedule", "移除定时操作"},

	"apps.create": {"create an app", "创建应用"}, "apps.list": {"list apps", "查询应用列表"},
	"apps.get": {"look at an app", "查看应用"}, "apps.change": {"change an app", "变更应用"},
	"apps.secrets.create": {"give an app a secret", "为应用更换密钥"},
	"users.create":        {"create a user", "创建用户"}, "users.list": {"list users", "查询用户列表"},
	"users.get": {"look at a user", "查看用户"}, "users.change": {"change a user", "变更用户"},
	"users.tokens.create": {"make a token of a user", "为用户生成令牌"},
	"rights.check":        {"look up a right", "查询权限"},
	"users.tokens.list":   {"list tokens and sessions", "查询令牌和会话"},
	"users.tokens.delete": {"end a token or a session", "吊销令牌或结束会话"},
	"sign-ins.create":     {"make a sign-in link", "生成登录链接"}, "sign-ins.end": {"sign out", "退出登录"},
	"sign-ins.devices.create": {"ask for a command line's sign-in", "请求命令行登录"},
	"sign-ins.devices.state":  {"wait for a command line's sign-in", "等待命令行登录"},
	"receivers.create":        {"create a receiver", "创建告警接收方"}, "receivers.list": {"list receivers", "查询告警接收方列表"},
	"receivers.get": {"look at a receiver", "查看告警接收方"}, "receivers.change": {"change a receiver", "变更告警接收方"},
	"receivers.delete": {"delete a receiver", "删除告警接收方"}, "receivers.test": {"test a receiver", "测试告警接收方"},
	"receivers.secret.create": {"give a receiver a secret", "为告警接收方更换密钥"},
	"silences.create":         {"create a silence", "创建静默"}, "silences.list": {"list silences", "查询静默列表"},
	"silences.get": {"look at a silence", "查看静默"}, "silences.remove": {"end a silence", "结束静默"},
	"breakers.list": {"list breakers", "查询熔断列表"}, "breakers.reset": {"reset a breaker", "重置熔断"},
	"packages.add": {"add an agent version", "添加 Agent 版本"}, "packages.list": {"list agent versions", "查询 Agent 版本列表"},
	"packages.pieces.put": {"upload an agent version", "上传 Agent 版本"},
	"packages.remove":     {"remove an agent version", "移除 Agent 版本"},
	"audit.list":          {"read the audit log", "查看审计"}, "server.get": {"look at the server", "查看服务器"},
	"unknown": {"call an unknown path", "调用不存在的路径"},

	"console.sign-in": {"sign in", "登录"}, "console.sign-out": {"sign out", "退出登录"},
	"console.device":    {"sign a command line in", "登录命令行"},
	"console.save-view": {"save a view", "保存视图"}, "console.remove-view": {"remove a view", "移除视图"},

	"register_proc_info": {"register (GSE)", "注册进程（GSE）"}, "update_proc_info": {"update (GSE)", "更新进程（GSE）"},
	"unregister_proc_info": {"unregister (GSE)", "注销进程（GSE）"},
	"operate_proc":         {"operate (GSE)", "操作进程（GSE）"}, "operate_proc_v2": {"operate (GSE v2)", "操作进程（GSE v2）"},
	"operate_proc_multi":         {"operate on several (GSE)", "批量操作进程（GSE）"},
	"get_proc_operate_result":    {"ask for results (GSE)", "查询操作结果（GSE）"},
	"get_proc_operate_result_v2": {"ask for results (GSE v2)", "查询操作结果（GSE v2）"},
	"get_proc_status":            {"ask for states (GSE)", "查询进程状态（GSE）"},
	"get_proc_status_v2":         {"ask for states (GSE v2)", "查询进程状态（GSE v2）"},
	"sync_proc_status":           {"ask for states now (GSE)", "同步进程状态（GSE）"},
	"set_process_group_info":     {"set process groups (GSE)", "设置进程组（GSE）"},
	"get_process_group_info":     {"look at process groups (GSE)", "查询进程组（GSE）"},
	"restore_process_groups":     {"restore process groups", "恢复进程组"},
	"upgrade_to_agent_id":        {"turn to agent ids (GSE)", "切换为 Agent ID（GSE）"},
	"list_agent_state":           {"list states of agents (GSE)", "查询 Agent 状态列表（GSE）"},
	"list_agent_info":            {"list agents (GSE)", "查询 Agent 列表（GSE）"},
	"get_agent_status":           {"ask for states of agents (GSE)", "查询 Agent 状态（GSE）"},
	"get_agent_info":             {"look at agents (GSE)", "查询 Agent 信息（GSE）"},
	"operate_process":            {"operate (JOB)", "操作进程（JOB）"}, "manage_proc": {"manage (JOB)", "管理进程（JOB）"},
	"get_proc_result": {"ask for results (JOB)", "查询操作结果（JOB）"},
}

// Kind returns the word of a kind of event; the id itself if it has none.
func Kind(id string) Text { return word(Kinds, id) }

// Actor returns the word of who caused an event; the id itself if it has none.
func Actor(id string) Text { return word(Actors, id) }

// Action returns the word of an operation or of another action; the id itself if it has none.
func Action(id string) Text {
	if of, dry := strings.CutSuffix(id, ".dry-run"); dry {
		t := Action(of)
		return Text{t.en + " (dry run)", t.zh + "（试运行）"}
	}
	if t, ok := Operations[id]; ok {
		return t
	}
	return word(Actions, id)
}

// AskedFor returns the ids of what a call asked for, joined with commas: its operations, or its endpoint if there are
// none. An apply and an undo are more than the operations that carry them out.
func AskedFor(action string, ops []string) string {
	const dryRun = ".dry-run"
	base, dry := strings.CutSuffix(action, dryRun)
	if len(ops) == 0 || base == "namespaces.apply" || base == "rollouts.undo" {
		return action
	}
	slices.Sort(ops)
	text := strings.Join(ops, ", ")
	if dry {
		text = strings.ReplaceAll(text, ", ", dryRun+", ") + dryRun
	}
	return text
}

// Did returns the words of actions, of which several are joined with commas.
func Did(ids string, l Lang) string {
	list := strings.Split(ids, ", ")
	for i, id := range list {
		list[i] = Action(id).In(l)
	}
	return strings.Join(list, Text{", ", "、"}.In(l))
}

func word(of map[string]Text, id string) Text {
	if t, ok := of[id]; ok {
		return t
	}
	return Plain(id)
}
