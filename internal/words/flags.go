package words

import (
	"regexp"
	"sync"
)

// Flags describe the flags of the command line.
//
//nolint:gochecknoglobals // constant texts
var Flags = []Text{
	{"help for {command}", "显示 {command} 的帮助"},

	// which server, and how drover answers
	{
		"URL of the server; its credentials come from the environment, or from 'drover login URL'",
		"服务器的 URL；凭据来自环境变量，或 'drover login URL'",
	},
	{"data directory of a server on this host; drover connects to its drover.sock", "本机服务器的数据目录；drover 连接其中的 drover.sock"},
	{"use the server and the sign-in of this context", "使用该上下文的服务器和登录"},
	{"use colours: auto, always or never", "使用颜色：auto、always 或 never"},
	{
		"language: en or zh; on a terminal the default is that of DROVER_LANG or the locale",
		"语言：en 或 zh；在终端上默认取自 DROVER_LANG 或 locale",
	},
	{"how long the command may take, such as 90s; 0 is no limit", "命令最长执行时间，例如 90s；0 为不限"},
	{
		"how long the command may take, including the wait, such as 90s; 0 is no limit",
		"命令最长执行时间（含等待），例如 90s；0 为不限",
	},
	{"look again every 2s until Ctrl-C; needs a terminal", "每 2 秒刷新一次，直到 Ctrl-C；需要终端"},
	{"leave out the header line", "不显示表头"},
	{"do not ask for confirmation", "不再询问确认"},
	{"restart also what fails its preflight: it may be down afterwards", "启动前检查失败也重启：之后进程可能停止"},
	{"go past the preflight: if the process cannot start, it is down afterwards", "跳过启动前检查：如果进程无法启动，之后就会停止"},
	{
		"ask with the specs of this file: a process file, or the fields of one process; - reads stdin",
		"用此文件中的进程配置检查：进程文件，或单个进程的字段；- 表示读标准输入",
	},
	{"do not show the text in a pager (PAGER, or less) at a terminal", "在终端上不使用分页程序（PAGER 或 less）"},
	{"print nothing: the exit code tells", "不输出任何内容，只看退出码"},
	{"output format: table or json", "输出格式：table 或 json"},
	{"output format: table, json or yaml", "输出格式：table、json 或 yaml"},
	{"output format: table, json, yaml or name", "输出格式：table、json、yaml 或 name"},
	{
		"output format: table, json, yaml, csv, jsonpath=PATH or custom-columns=HEAD:PATH,...",
		"输出格式：table、json、yaml、csv、jsonpath=PATH 或 custom-columns=HEAD:PATH,...",
	},
	{
		"output format: table, json, yaml, name, csv, jsonpath=PATH or custom-columns=HEAD:PATH,...",
		"输出格式：table、json、yaml、name、csv、jsonpath=PATH 或 custom-columns=HEAD:PATH,...",
	},
	{"output format: table, wide, json, yaml or name", "输出格式：table、wide、json、yaml 或 name"},
	{
		"output format: table, wide, json, yaml, csv, jsonpath=PATH or custom-columns=HEAD:PATH,...",
		"输出格式：table、wide、json、yaml、csv、jsonpath=PATH 或 custom-columns=HEAD:PATH,...",
	},
	{
		"output format: table, wide, json, yaml, name, csv, jsonpath=PATH or custom-columns=HEAD:PATH,...",
		"输出格式：table、wide、json、yaml、name、csv、jsonpath=PATH 或 custom-columns=HEAD:PATH,...",
	},
	{"output format: text or json", "输出格式：text 或 json"},
	{"output format: text, json or yaml", "输出格式：text、json 或 yaml"},
	{"output format: yaml or json", "输出格式：yaml 或 json"},

	// which processes and hosts
	{"further hosts: ids, CLOUD:IP, patterns or @FILE", "另外的主机：ID、CLOUD:IP、通配符或 @FILE"},
	{"only on these hosts: ids, CLOUD:IP, patterns or @FILE", "仅限这些主机：ID、CLOUD:IP、通配符或 @FILE"},
	{"only of these hosts: ids, CLOUD:IP, patterns or @FILE", "仅这些主机的日志：ID、CLOUD:IP、通配符或 @FILE"},
	{
		"hosts of the processes; ids, CLOUD:IP or patterns (default: this host)",
		"进程所在的主机：ID、CLOUD:IP 或通配符（默认：本机）",
	},
	{"hosts to register the process on: ids, CLOUD:IP, patterns or @FILE", "在这些主机上注册进程：ID、CLOUD:IP、通配符或 @FILE"},
	{
		"only hosts whose labels and facts match, such as role=web,zone!=b",
		"仅标签和属性符合表达式的主机，例如 role=web,zone!=b",
	},
	{"only hosts in this state: online or away", "仅处于该状态的主机：online 或 away"},
	{"only processes with this text in their name or their host, in any case", "仅名称或所在主机含有该文本的进程，不分大小写"},
	{"only hosts in the area of this proxy; a name or a pattern", "仅该 Proxy 所在管控区域的主机；名称或匹配模式"},
	{"only hosts by the policy of their owner: none or limited", "按主机所有者的策略筛选主机：none（无）或 limited（有限制）"},
	{
		"only hosts with this text in a name, a label or a fact, in any case",
		"仅名称、标签或属性含有该文本的主机，不区分大小写",
	},
	{"count the hosts by the values of this label or fact", "按该标签或属性的值统计主机数"},
	{"only processes in these states", "仅处于这些状态的进程"},
	{"only processes of this name, or of a pattern", "仅该名称（或通配符）的进程"},
	{"only processes of this namespace, or of a pattern", "仅该命名空间（或通配符）的进程"},
	{"only processes whose own labels match, such as tier=front", "仅自身标签符合表达式的进程，例如 tier=front"},
	{"only running processes of this version, or of a pattern", "仅正在运行该版本（或通配符）的进程"},
	{"only on the first hosts, at most this number", "仅限前若干台主机，最多该数"},
	{"only the hosts on which the task or rollout with this id failed", "仅该 ID 的任务或分批发布失败的主机"},
	{
		"the failed targets of the task or rollout with this id, instead of names",
		"不写名称，改为该 ID 的任务或分批发布中失败的执行对象",
	},
	{"check the command, print its targets, and do nothing", "检查命令，显示执行对象，不执行"},
	{"print the changes of selections, and do nothing", "只显示选择结果的变化，不设置标签"},
	{
		"show only the number of processes in each state; processes of hosts that are away count as stale",
		"只显示各状态的进程数；失联主机上的进程计为 stale",
	},
	{
		"the processes as they were at this time: RFC 3339, 10:00 or an age such as 15m",
		"显示该时刻的进程：RFC 3339、10:00，或多久之前，例如 15m",
	},

	// operations and rollouts
	{"print the task's id and do not wait for it", "显示任务 ID，不等待其完成"},
	{"how long each host has to accept the operation, such as 5s", "每台主机受理操作的时限，例如 5s"},
	{"operate on one of the connected hosts only", "仅在一台已连接的主机上执行"},
	{
		"with --one-of: operate on another host, too, if the first one may have begun the operation and has vanished",
		"使用 --one-of 时：第一台主机可能已开始执行但已失去联系，则在另一台主机上再执行",
	},
	{"start the processes that these are after, too", "同时启动这些进程所依赖的进程（after）"},
	{"stop the processes that are after these, too", "同时停止依赖这些进程的进程（after）"},
	{"restart the processes that are after these, too", "同时重启依赖这些进程的进程（after）"},
	{"what gets the signal: process or tree", "信号的对象：process（主进程）或 tree（整个进程树）"},
	{"go through the hosts in batches of this size, such as 20 or 10%", "每批的主机数，例如 20 或 10%"},
	{"hosts of the first batch, of which none may fail", "灰度主机数：第一批主机，不允许失败"},
	{"replace the keys of every kind", "轮换所有种类的密钥"},
	{"take both steps, and wait for the online hosts", "完成两步，并等待在线的主机"},
	{"take the canaries from the hosts that match, such as ring=early", "从匹配的主机中选取灰度主机，例如 ring=early"},
	{"spread each batch over the values of this label or fact, such as zone", "按该标签或属性（例如 zone）的值分散每一批"},
	{"wait after the canaries until another person approves", "灰度之后等待另一人批准"},
	{
		"the processes that the task or rollout with this id has stopped, instead of names",
		"该任务或分批发布所停止的进程，代替名称",
	},
	{"undo the apply by itself when more hosts fail than may fail", "失败的主机超过允许数时自动撤销本次应用"},
	{"how long the processes of a batch must stay well, such as 60s", "观察期：一批进程须保持正常的时间，例如 60s"},
	{"wait before the next batch, after --bake, such as 30s", "观察期（--bake）之后、下一批之前的等待时间，例如 30s"},
	{"hosts that may be down at the same time, such as 3 or 5%", "允许同时不可用的主机数，例如 3 或 5%"},
	{"hosts that may fail, such as 3 or 5%; default none", "允许失败的主机数，例如 3 或 5%；默认不允许"},
	{"leave out hosts that are not connected", "跳过未连接的主机"},
	{"the label or fact that sorts the hosts", "按该标签或属性为主机排序"},
	{
		"begin the rollout at this time of day in the server's time zone, such as 03:00, or at a time in RFC 3339",
		"在服务器时区的该时刻开始分批发布，例如 03:00；也可写 RFC 3339 时间",
	},
	{"print the id of the rollout and return", "显示分批发布的 ID 后返回"},
	{"print the id of the new rollout and do not wait for it", "显示新分批发布的 ID，不等待其完成"},
	{"only hosts that were not connected, failed or skipped", "仅当时未连接（失败或跳过）的主机"},
	{
		"only rollouts in this state: scheduled, running, held, paused, done or aborted; active is all but the last two",
		"仅处于该状态的分批发布：scheduled、running、held、paused、done 或 aborted；active 是除后两者以外的全部状态",
	},
	{"only rollouts with a process of this namespace, or of a pattern", "仅涉及该命名空间（或通配符）的分批发布"},
	{"only rollouts that have one of these hosts: ids, CLOUD:IP, patterns or @FILE", "仅包含这些主机的分批发布：ID、CLOUD:IP、通配符或 @FILE"},
	{"version of the agent", "Agent 版本"},
	{"timetable: five fields of crontab, or @daily and so on", "定时规则：crontab 的五个字段，或 @daily 等"},
	{"time zone of --cron, such as Europe/Berlin (default the server's)", "--cron 的时区，例如 Asia/Shanghai（默认服务器的时区）"},
	{"reason, for other people", "事由，供他人了解"},

	// process files
	{"process file, or directory with process files; - reads stdin", "进程文件，或含进程文件的目录；- 表示 stdin"},
	{"file with the spec; - reads stdin", "进程配置文件；- 表示 stdin"},
	{"take the spec from this revision of the namespace, instead of a file", "采用命名空间的该修订版本中的配置，而不用文件"},
	{
		"take the spec from the selection in force that the hosts match, instead of a file",
		"采用这些主机所符合的、当前生效的主机选择中的配置，而不用文件",
	},
	{"change the spec if a host knows the process already", "主机已知该进程时更新其配置"},
	{"print the plan, and do nothing", "只显示变更计划，不执行"},
	{
		"stop and remove processes that are not in the files; all also removes those of GSE and JOB callers",
		"停止并移除文件中没有的进程；取值 all 时，GSE 和 JOB 调用方的进程也一并移除",
	},
	{"leave running processes running: changes wait for the next start", "不重启正在运行的进程，变更到下次启动时生效"},
	{"leave a running process running: changes wait for the next start", "进程正在运行时不重启，变更到下次启动时生效"},
	{"start a process beside copies that another program started", "即使其他程序已启动相同的进程，仍然另行启动"},
	{"watch a copy that another program started as the process, as it runs", "原样接管其他程序已启动的相同进程"},
	{"reason, in one line, for 'drover revisions'", "变更事由，一行文本，显示在 'drover revisions' 中"},
	{"compare a revision with the hosts, or two revisions: A or A..B", "比较修订版本与主机（A），或两个修订版本（A..B）"},
	{"the processes as they are by this revision of the namespace", "显示命名空间在该修订版本时的进程"},
	{"print the JSON Schema of process files, for editors", "输出进程文件的 JSON Schema，供编辑器使用"},
	{"namespace of the processes", "进程的命名空间"},
	{"take over the running processes of this host, as they are", "原样接管本机正在运行的进程"},

	// what has happened
	{"ask no host: compare only what the server has stored", "不询问主机，只比较服务器保存的内容"},
	{"also list processes that are as they should be, if there is something to explain", "也列出符合预期但有需要说明之处的进程"},
	{"only findings with these causes, such as exit-status", "仅这些原因的问题，例如 exit-status"},
	{"list at most this number of findings, worst first; 0 is 1000", "最多列出的问题数，最严重的在前；0 为 1000"},
	{"show the page about this cause instead", "改为显示该原因的说明页"},
	{"only events of these kinds, such as exited or given-up", "仅这些类型的事件，例如 exited 或 given-up"},
	{"follow new events as they arrive", "持续显示新事件"},
	{
		"list at most this number of past events; 0 lists all, or none with --follow",
		"最多列出的历史事件数；0 为全部，与 --follow 同用时为不列出",
	},
	{"show at most this number of events, the latest ones; 0 shows all", "最多显示的事件数，取最新的；0 为全部"},
	{"list at most this number of revisions, the latest ones; 0 lists all", "最多列出的修订版本数，取最新的；0 为全部"},
	{"list at most this number of rollouts; 0 lists all", "最多列出的分批发布数；0 为全部"},
	{"list at most this number of rows; 0 lists all", "最多列出的行数；0 为全部"},
	{"show at most this number of rows of each list, from 1 to 1000", "每个列表最多显示的行数，1 至 1000"},
	{"list at most this number of tasks; 0 lists all", "最多列出的任务数；0 为全部"},
	{"the first moment: RFC 3339, 10:00 or an age such as 15m", "第一个时刻：RFC 3339、10:00，或多久之前，例如 15m"},
	{"the second moment; now if it is not given", "第二个时刻；省略时为现在"},
	{"only from this time on: RFC 3339, 10:00 or an age such as 24h", "仅该时刻之后：RFC 3339、10:00，或多久之前，例如 24h"},
	{"only before this time: RFC 3339, 10:00 or an age such as 1h", "仅该时刻之前：RFC 3339、10:00，或多久之前，例如 1h"},
	{"only tasks in this state: running or done", "仅处于该状态的任务：running 或 done"},
	{"only tasks of this app", "仅该应用的任务"},
	{"only tasks of this user", "仅该用户的任务"},
	{"only tasks of this operation, such as restart", "仅该操作的任务，例如 restart"},
	{"only tasks with a process of this namespace, or of a pattern", "仅涉及该命名空间（或通配符）的任务"},
	{"only tasks with a failure (failed), or done without one (ok)", "仅有失败的任务（failed），或已完成且没有失败的任务（ok）"},
	{"only tasks from this time on: RFC 3339, 10:00 or an age such as 10m", "仅该时刻之后的任务：RFC 3339、10:00，或多久之前，例如 10m"},
	{"only tasks with a target on these hosts: ids, CLOUD:IP, patterns or @FILE", "仅在这些主机上有执行对象的任务：ID、CLOUD:IP、通配符或 @FILE"},
	{"only failed targets", "仅失败的执行对象"},
	{"state to wait for: running, ready or stopped", "等待的状态：running、ready 或 stopped"},
	{"only calls from this address", "仅来自该地址的调用"},
	{"only calls of this app", "仅该应用的调用"},
	{"only calls of this endpoint", "仅该接口的调用"},
	{"only calls of this user", "仅该用户的调用"},
	{"only denied calls", "仅被拒绝的调用"},
	{"without the calls that only read, and without dry runs", "不含只读的调用和试运行"},
	{"only the call with this request id", "仅该请求 ID 的调用"},

	// logs, usage and the screen
	{"show new lines as they come", "持续显示新行"},
	{
		"show at most this number of lines of each log, the last ones; 0 shows none, with --follow new lines only",
		"每个日志最多显示的行数，取最后的；0 为不显示，与 --follow 合用时仅新的行",
	},
	{"only lines from this time on: RFC 3339, 10:00 or an age such as 10m", "仅该时刻之后的行：RFC 3339、10:00，或多久之前，例如 10m"},
	{"only lines that match this regular expression (RE2)", "仅符合该正则表达式（RE2）的行"},
	{"only what the process wrote to stderr", "仅进程写到 stderr 的内容"},
	{"begin each line with the time when the host saw it", "每行开头显示主机收到该行的时间"},
	{"leave control characters as they are", "原样输出控制字符"},
	{"run to show: 0 is the present or last one, -1 the one before", "要显示的运行：0 为本次或最近一次，-1 为再前一次"},
	{"also show the history of this time: 15m, 1h or 24h", "同时显示这段时间的用量历史：15m、1h 或 24h"},
	{"number of processes to show", "显示的进程数"},
	{"show the processes once", "只显示一次"},
	{"time between two looks, at least 1s", "刷新间隔，至少 1s"},
	{"what to sort by: cpu or memory", "排序依据：cpu 或 memory"},
	{"offer no operations", "不提供操作"},

	// hosts, tokens, keys and versions of the agent
	{"role of the token: agent or proxy", "令牌的角色：agent 或 proxy"},
	{"cloud area that hosts join", "主机接入的管控区域"},
	{"business of these hosts; 0 is no business", "这些主机所属的业务；0 为没有业务"},
	{"labels of these hosts, such as key=value,key2=value; may be repeated", "这些主机的标签，例如 key=value,key2=value；可多次使用"},
	{"known host whose place the host takes that joins with the token", "由用该令牌接入的主机替换的已知主机"},
	{"how many hosts may join with the token", "可用该令牌接入的主机数"},
	{"how long the token is valid, such as 1h or 720h", "令牌的有效期，例如 1h 或 720h"},
	{"do not wait for online hosts that have not received the next key", "不等待尚未收到下一个密钥的在线主机"},
	{
		"how long the server keeps the present key for hosts that are away (default 4320h, 180 days)",
		"服务器为失联主机保留当前密钥的时间（默认 4320h，即 180 天）",
	},
	{"file of the private release key", "发布密钥的私钥文件"},
	{"file of the signature (default FILE.sig)", "签名文件（默认 FILE.sig）"},
	{"version of the program, such as 1.4.0", "程序的版本，例如 1.4.0"},
	{"let hosts with a later version take the package, too", "版本更新的主机也接受该程序包"},
	{"the record format of the program; default: that of this drover", "程序的记录格式；默认为本 drover 的格式"},

	// apps, users and sign-in
	{"a note for administrators", "备注，供管理员查看"},
	{"a right of the new app; may be repeated", "新应用的权限；可多次使用"},
	{"grant every right, and the management of apps and users", "授予全部权限，包括管理应用和用户"},
	{"give the user every right", "授予用户全部权限"},
	{"let the app name its user without a proof", "允许应用自行指定用户，无需证明"},
	{"on this host (default every host)", "在该主机上（默认为所有主机）"},
	{"in a call with this number of targets, processes times hosts", "调用的目标数（进程数 × 主机数）"},
	{"when the rights end: RFC 3339, or a time from now on such as 8h", "权限的到期时间：RFC 3339 时间，或从现在起的时长，例如 8h"},
	{"how many targets, processes times hosts, one call may change", "一次调用最多可变更的目标数（进程数 × 主机数）"},
	{"limit of calls a second; 0 is no limit", "每秒调用数上限；0 为不限"},
	{"burst of calls that the app may make after a pause", "应用停顿之后可突发的调用数"},
	{"limit of concurrent calls; 0 is no limit", "并发调用数上限；0 为不限"},
	{"how long the old secret stays valid, at most 2160h", "旧密钥继续有效的时间，最长 2160h"},
	{"how long the token is valid, such as 720h; 0 is for ever", "令牌的有效期，例如 720h；0 为永久"},
	{"end the sign-in of this context", "退出该上下文的登录"},
	{"with URL: a file with the CA of the server's certificate, as PEM", "与 URL 同用：签发服务器证书的 CA 文件，PEM 格式"},

	// alarms
	{"the form of the alarms: webhook, alertmanager or email", "告警的形式：webhook、alertmanager 或 email"},
	{"address of the receiver: http or https, or smtp or smtps for mail", "接收方的地址：http 或 https，邮件为 smtp 或 smtps"},
	{"allow loopback, link-local and multicast addresses, and metadata services of clouds", "允许回环、链路本地和组播地址，以及云的元数据服务"},
	{
		"file with the secret of a webhook, the bearer token of an alertmanager, or the password of a mail server",
		"密钥文件：webhook 的密钥、alertmanager 的 bearer 令牌，或邮件服务器的密码",
	},
	{"pattern of namespaces whose alarms to deliver; may be repeated (default all)", "投递这些命名空间的告警，可用通配符，可多次使用（默认全部）"},
	{"deliver the alarms of all namespaces", "投递全部命名空间的告警"},
	{"deliver the alarms of all hosts", "投递全部主机的告警"},
	{
		"expression about the hosts whose alarms to deliver, such as role=web (default all hosts)",
		"投递符合该表达式的主机的告警，例如 role=web（默认全部主机）",
	},
	{
		"expression about the labels of the processes whose alarms to deliver, such as tier=front",
		"投递标签符合该表达式的进程的告警，例如 tier=front",
	},
	{"kinds of alarms to deliver, such as given-up,unhealthy (default all)", "投递的告警类型，例如 given-up,unhealthy（默认全部）"},
	{"severities to deliver: critical, warning, notice (default all)", "投递的级别：critical、warning、notice（默认全部）"},
	{"recipient of mails; may be repeated", "收件人；可多次使用"},
	{"sender of mails", "发件人"},
	{"user of the mail server", "邮件服务器的账户"},
	{"template of the subject of mails", "邮件主题的模板"},
	{"file with the template of the text of mails, or of the JSON of a webhook", "邮件正文或 webhook 的 JSON 的模板文件"},
	{"length of the silence, such as 2h", "静默的时长，例如 2h"},
	{"begin at this time: RFC 3339, or a time from now on such as 30m (default now)", "开始时间：RFC 3339，或多久之后，例如 30m（默认现在）"},
	{"end at this time, instead of --for: RFC 3339, or a time from now on such as 3h", "结束时间，代替 --for：RFC 3339，或多久之后，例如 3h"},
	{"begin a window at these times: a crontab rule such as '0 2 * * 0'", "在这些时刻开始静默：crontab 规则，例如 '0 2 * * 0'"},

	// servers and proxies
	{"YAML file of settings, with the names of the flags", "YAML 配置文件，键名与选项相同"},
	{"directory for all stored data", "保存全部数据的目录"},
	{"data directory of the server", "服务器的数据目录"},
	{"data directory of a server that holds the keys", "持有密钥的服务器的数据目录"},
	{
		"data directory of the agent on this host (default: that of --data-dir, else /var/lib/drover-agent)",
		"本机 Agent 的数据目录（默认：--data-dir 的值，否则为 /var/lib/drover-agent）",
	},
	{"debug, info, warn or error", "日志级别：debug、info、warn 或 error"},
	{"address of the API", "API 的地址"},
	{"loopback address of the API; port 0 chooses a free port", "API 的回环地址；端口 0 表示自动选择空闲端口"},
	{"address that agents connect to", "供 Agent 连接的地址"},
	{"address that agents and servers connect to", "供 Agent 和服务器连接的地址"},
	{"address that hosts join at", "供主机接入的地址"},
	{
		"address that proxies connect to, such as 0.0.0.0:7352 (default: no proxies)",
		"供 Proxy 连接的地址，例如 0.0.0.0:7352（默认：不接受 Proxy）",
	},
	{
		"address that proxies connect to, such as 0.0.0.0:7422 (default: no proxies)",
		"供 Proxy 连接的地址，例如 0.0.0.0:7422（默认：不接受 Proxy）",
	},
	{
		"address that the embedded brokers of other servers connect to, such as 0.0.0.0:7353 (default: no cluster)",
		"供其他服务器的内置 broker 连接的地址，例如 0.0.0.0:7353（默认：没有集群）",
	},
	{
		"address that the other brokers connect to, such as 0.0.0.0:6222 (default: no other brokers)",
		"供其他 broker 连接的地址，例如 0.0.0.0:6222（默认：没有其他 broker）",
	},
	{"HOST:PORT of another server's --cluster; may be repeated", "另一台服务器 --cluster 的 HOST:PORT；可多次使用"},
	{"HOST:PORT of another broker's --cluster; may be repeated", "另一个 broker --cluster 的 HOST:PORT；可多次使用"},
	{
		"HOST:PORT by which agents reach the fabric, also through NAT; may be repeated; required if --fabric is a " +
			"wildcard address",
		"Agent 连接消息总线所用的 HOST:PORT，可以是经 NAT 的地址；可多次使用；--fabric 为通配地址时必填",
	},
	{
		"HOST:PORT by which proxies reach each server or broker; may be repeated (default: --proxies if it is one " +
			"address, otherwise the hosts of --advertise with the port of --proxies)",
		"Proxy 连接各服务器或 broker 所用的 HOST:PORT；可多次使用（默认：--proxies 是单个地址时取该地址，" +
			"否则取 --advertise 的主机和 --proxies 的端口）",
	},
	{"HOST:PORT by which the agents of the area reach this proxy", "本管控区域的 Agent 连接此 Proxy 所用的 HOST:PORT"},
	{
		"URL of a NATS broker to use instead of an embedded one, such as tls://nats1.example.com:4222; may be repeated",
		"代替内置 broker 的 NATS 的 URL，例如 tls://nats1.example.com:4222；可多次使用",
	},
	{
		"URL of a PostgreSQL database, such as postgres://drover@db.example.com/drover, or path of a SQLite file " +
			"(default: server/drover.db in the data directory). Put a password into the file of --config, " +
			"DROVER_DATABASE or PGPASSFILE",
		"PostgreSQL 数据库的 URL，例如 postgres://drover@db.example.com/drover，或 SQLite 文件的路径（默认：数据目录下的 " +
			"server/drover.db）。密码请写在 --config 的文件、DROVER_DATABASE 或 PGPASSFILE 中",
	},
	{"URL of a PostgreSQL database, without a password, or path of a SQLite file", "PostgreSQL 数据库的 URL（不含密码），或 SQLite 文件的路径"},
	{"URL of the PostgreSQL database (default: that of DROVER_DATABASE)", "PostgreSQL 数据库的 URL（默认：DROVER_DATABASE 的值）"},
	{"the SQLite database, as sqlite:PATH", "SQLite 数据库，写作 sqlite:PATH"},
	{"path of the database (default server/drover.db in the data directory)", "数据库的路径（默认：数据目录下的 server/drover.db）"},
	{
		"PEM file of the API's certificate and its issuers (default: the server issues its own certificate)",
		"API 证书及其签发者的 PEM 文件（默认：服务器自行签发证书）",
	},
	{"file of the private key of --tls-cert", "--tls-cert 的私钥文件"},
	{
		"serve HTTP without TLS: only for loopback, or behind a TLS proxy on this machine",
		"提供不带 TLS 的 HTTP：仅用于回环地址，或本机另有程序终结 TLS 时",
	},
	{
		"BlueKing login service that verifies a bk_token, such as https://paas.example.com/login",
		"校验 bk_token 的蓝鲸登录服务，例如 https://paas.example.com/login",
	},
	{
		"network of trusted gateways, which may name app and user without a proof on /procapi and /esb/api; may be repeated",
		"可信网关的网段，网关在 /procapi 和 /esb/api 上可直接指定应用和用户，无需证明；可多次使用",
	},
	{
		"number of hosts above which an operation or an apply must be a rollout that a second person approves " +
			"(default: no limit)",
		"主机数超过该值时，操作和 apply 必须以分批发布的方式执行，并由另一人批准（默认：不限）",
	},
	{
		"a breaker opens if more than this share of the hosts of a process fails from one cause (default: 30%)",
		"同一进程超过该比例的主机因同一原因失败时，熔断打开（默认：30%）",
	},
	{"hosts that must fail before a breaker opens (default: 5)", "熔断打开之前至少须失败的主机数（默认：5）"},
	{"time within which hosts must fail before a breaker opens (default: 60s)", "统计失败主机的时间窗口（默认：60s）"},
	{"how long a breaker stays open (default: 5m)", "熔断保持打开的时间（默认：5m）"},
	{"name of the proxy: lower-case letters, digits, dots and dashes", "Proxy 的名称：小写字母、数字、点和连字符"},
	{"URL of the server's API, such as https://drover.example.com:7350", "服务器 API 的 URL，例如 https://drover.example.com:7350"},
	{"the token; - reads the token from stdin", "令牌；- 表示从 stdin 读取"},
	{"role that the file configures: server or proxy", "该配置文件的角色：server 或 proxy"},
	{"directory of the broker for its configuration and state", "broker 存放配置和状态的目录"},
	{"directory to write the files to (default: print the configuration)", "写入文件的目录（默认：输出配置）"},
	{"host name or IP address of the broker, for its certificate; may be repeated", "broker 的主机名或 IP 地址，用于其证书；可多次使用"},
	{"name of the broker, unique among the brokers", "broker 的名称，在各 broker 中唯一"},

	// the agent of drover dev
	{"address by which callers name the local agent", "调用方用来指明本机 Agent 的地址"},
	{"cloud area of the local agent", "本机 Agent 的管控区域"},
	{"stable id of the local agent, in addition to CLOUD:IP", "本机 Agent 的固定 ID，与 CLOUD:IP 并用"},
	{
		"labels of this host, such as role=web,zone=b; they select the host and grant no rights",
		"本机的标签，例如 role=web,zone=b；只用于选择主机，不授予权限",
	},
	{
		"directory with facts of this host: JSON files, or executables that print JSON",
		"本机属性的目录：JSON 文件，或输出 JSON 的可执行文件",
	},
	{"how long the host keeps events at most, 1h to 2160h", "主机保留事件的最长时间，1h 至 2160h"},
	{"interval at which the agent measures processes with limits, 1s to 1m", "Agent 测量有限制的进程的间隔，1s 至 1m"},
	{
		"largest number of processes with metrics of their own, 0 to 10000; 0 is none",
		"最多有多少个进程带有各自的指标，0 至 10000；0 为没有",
	},
	{"relaunches that the host allows at once", "主机一次允许的拉起数"},
	{"relaunches a second that the host allows after --relaunch-burst", "用完 --relaunch-burst 之后，主机每秒允许的拉起数"},
	{"relaunches within --flap-window before a process counts as flapping", "在 --flap-window 内拉起多少次计为频繁重启"},
	{"time window of --flap-relaunches, 1m to 24h", "--flap-relaunches 的时间窗口，1m 至 24h"},
}

// flags finds the texts of the flags.
//
//nolint:gochecknoglobals // it never changes
var flags = sync.OnceValue(func() []*pattern { return patterns(Flags) })

// Flag returns what the help says of a flag, in a language; ok is false if the catalogue does not have the text.
func Flag(english string, l Lang) (text string, ok bool) {
	if l == English {
		return english, true
	}
	return translate(english, 1, flags())
}

// byDefault is how package pflag ends the line of a flag that has a default.
var byDefault = regexp.MustCompile(`(?m) \(default ([^()]*)\)$`)

// Defaults puts the defaults at the ends of lines of a help into a language.
func Defaults(help string, l Lang) string {
	if l == English {
		return help
	}
	return byDefault.ReplaceAllString(help, "（默认 $1）")
}
