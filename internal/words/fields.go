package words

import "sync"

// Fields describe the fields of a process file: what a field does, the form of its value, and its default.
//
//nolint:gochecknoglobals // constant texts
var Fields = []Text{
	// forms of values, and defaults
	{"required", "必填"},
	{"none", "无"},
	{"no limit", "不限"},
	{"as below", "见下"},
	{"all hosts at once", "全部主机同时执行"},
	{"the account's", "与账户相同"},
	{"the agent's", "与 Agent 相同"},
	{"the host's", "与主机相同"},
	{"the user's", "与 user 相同"},
	{"the name of the host", "主机名称"},
	{"all hosts", "所有主机"},
	{"-1000 to 1000", "-1000 至 1000"},
	{"-20 to 19", "-20 至 19"},
	{"32 hexadecimal digits", "32 位十六进制数字"},
	{"64 hexadecimal digits", "64 位十六进制数字"},
	{"absolute path", "绝对路径"},
	{"account", "账户"},
	{"always, on-failure or never", "always、on-failure 或 never"},
	{"command line", "命令行"},
	{"command line, or {signal: NAME}", "命令行，或 {signal: NAME}"},
	{"duration", "时长"},
	{"duration in whole seconds", "整秒的时长"},
	{"duration in whole seconds, at most 24h", "整秒的时长，最多 24h"},
	{"five fields", "五个字段"},
	{"group", "用户组"},
	{"keep or stop", "keep 或 stop"},
	{"label or fact", "标签或属性"},
	{"selector", "选择表达式"},
	{"list of \"SIGNAL DURATION\"", "\"信号 时长\" 的列表"},
	{"list of absolute paths", "绝对路径的列表"},
	{"list of exit codes and signals", "退出码和信号的列表"},
	{"list of groups", "用户组的列表"},
	{"list of hosts or patterns, or `{select: EXPRESSION}`", "主机或通配符的列表，或 `{select: EXPRESSION}`"},
	{"list of names", "名称的列表"},
	{"list of names with processes", "列表，每项以进程名为键"},
	{"list of {path, sha256 or md5}", "{path, sha256 或 md5} 的列表"},
	{"name", "名称"},
	{"names with durations", "名称和时长的键值对"},
	{"names with numbers", "名称和数字的键值对"},
	{"names with strings", "名称和字符串的键值对"},
	{"names with values", "键值对"},
	{"number", "数字"},
	{"number or infinity", "数字或 infinity"},
	{"number from 1", "数字，不小于 1"},
	{"number from 0 to 10000", "数字，0 至 10000"},
	{"number from 1 to 100", "数字，1 至 100"},
	{"number from 1 to 1000", "数字，1 至 1000"},
	{"number from 3 to 255", "数字，3 至 255"},
	{"number or never", "数字或 never"},
	{"number, or percent of the hosts", "数字，或主机的百分比"},
	{"octal digits in quotes", "带引号的八进制数字"},
	{"one check, every, timeout, failures, grace, action", "一种检查，以及 every、timeout、failures、grace、action"},
	{"one check, within, on_timeout", "一种检查，以及 within、on_timeout"},
	{"percent", "百分比"},
	{"processes with started, ready or finished", "进程及其状态：started、ready 或 finished"},
	{"regular expression (RE2)", "正则表达式（RE2）"},
	{"report or mend", "report 或 mend"},
	{"report or restart", "report 或 restart"},
	{"report or stop", "report 或 stop"},
	{"seconds", "秒数"},
	{"size", "大小"},
	{"size or infinity", "大小或 infinity"},
	{"skip or run-once", "skip 或 run-once"},
	{"skip, wait or replace", "skip、wait 或 replace"},
	{"text", "文本"},
	{"tree or process", "tree 或 process"},
	{"true or false", "true 或 false"},
	{"{cron or every, …}", "{cron 或 every, …}"},

	// what runs, and where
	{
		"The hosts that have the process: host ids, CLOUD:IP, or patterns with * and ?; or an expression about the " +
			"labels and facts of hosts, such as role=web,zone!=b.",
		"拥有该进程的主机：主机 ID、CLOUD:IP，或带 * 和 '?' 的通配符；也可以是关于主机标签和属性的表达式，例如 role=web,zone!=b。",
	},
	{
		"The command line of a foreground process. The command is the process; drover knows it from its birth. " +
			"A line with shell syntax ($, ~, *, ?, [, |, &, ;, <, >, parentheses, backquotes) runs under /bin/sh -c, and so do several " +
			"lines; write exec to leave no shell. drover splits every other line as a shell would and runs it without one. " +
			"A process has either run or start.",
		"前台进程的命令行。命令本身就是进程，drover 从它启动时起就能识别。含有 shell 语法（$、~、*、?、[、|、&、;、<、>、括号、反引号）的" +
			"命令行以及多行的命令由 /bin/sh -c 执行，写 exec 则不留下 shell。其他命令行由 drover 按 shell 的规则拆分，直接执行。run 和 start 只能给出其一。",
	},
	{
		"The command line that starts a daemon and returns. pid_file or process_name says who the daemon is.",
		"启动守护进程后返回的命令行。守护进程由 pid_file 或 process_name 识别。",
	},
	{"The file with the pid of the daemon that start leaves.", "存放 start 所启动守护进程的 pid 的文件。"},
	{
		"The base name of the executable. If a process with run has another one, its start and drover drift tell both. " +
			"A start without pid_file needs the name: drover then finds the process that it has started by this name and directory.",
		"可执行文件名。run 的进程名称不同时，启动结果和 drover drift 会给出两个名称。没有 pid_file 时 start 需要它：drover 按该名称和 directory 查找由它启动的进程。",
	},
	{"The working directory of all commands. It must exist.", "所有命令的工作目录，必须存在。"},
	{
		"A command that checks whether the process could start, such as nginx -t. It runs before each restart and reload, and by " +
			"drover preflight. If it fails, drover ends nothing: the process runs on.",
		"检查进程能否启动的命令，例如 nginx -t。在每次重启和重载之前运行，drover preflight 也会运行它。它失败时 drover 不结束任何进程：该进程继续运行。",
	},
	{"A command that runs before each start. If it fails, the process does not start.", "每次启动之前运行的命令。它失败时不启动进程。"},
	{"The command.", "命令。"},
	{"drover ends the command after this time; that is a failure.", "超过该时间时 drover 结束命令，并视为失败。"},
	{"A command that prints the version of the process on one line.", "用一行输出进程版本的命令。"},
	{
		"The account of the process: its name, or in quotes the number (uid) of an account of the host.",
		"运行进程的账户：账户名，或主机上账户的编号（uid），编号要加引号。",
	},
	{"The primary group of the process.", "进程的主用户组。"},
	{"The supplementary groups. They replace those of the user; [] means none.", "附加用户组，取代账户原有的附加组；[] 表示没有。"},
	{
		"Variables beside the fixed small environment (HOME, LANG, LOGNAME, PATH, SHELL, TZ, USER) and " +
			"DROVER_NAMESPACE, DROVER_NAME, DROVER_HOST and, in a copy, DROVER_COPY.",
		"环境变量，附加在固定的少量变量（HOME、LANG、LOGNAME、PATH、SHELL、TZ、USER）以及 DROVER_NAMESPACE、DROVER_NAME、" +
			"DROVER_HOST（副本中还有 DROVER_COPY）之外。",
	},
	{
		"Files on the host with lines NAME=value, read as systemd reads an EnvironmentFile: # and ; begin a comment, and quotes and " +
			"backslashes are removed. A backslash at the end joins two lines. Other lines are an error. A start fails without " +
			"the file, unless a - stands before its path. drover reads the files at each start. Their values never leave the host. " +
			"environment counts before the files, and a later file before an earlier one.",
		"主机上的文件，每行为 NAME=value，读取规则与 systemd 的 EnvironmentFile 相同：井号或分号开头的行是注释，引号和反斜杠会去掉，行尾的反斜杠连接下一行。其他的行是错误。文件不存在时启动失败，除非路径前有 -。drover 每次启动时读取，其中的值不会离开主机。environment 优先于这些文件，后面的文件优先于前面的。",
	},
	{
		"The file mode creation mask, such as \"022\". Without quotes YAML reads it as a number.",
		"文件权限掩码，例如 \"022\"。不加引号时 YAML 会当作数字。",
	},
	{"The scheduling priority; a higher number yields more.", "调度优先级，数字越大越谦让。"},
	{
		"How soon the kernel ends the process when memory is short; -1000 means never.",
		"内存不足时内核结束该进程的优先程度；-1000 表示从不结束。",
	},
	{
		"With true the process and its children gain no rights by executing a file.",
		"为 true 时，进程及其子进程不会因执行文件而获得更多权限。",
	},
	{
		"The capabilities that the process keeps, such as NET_BIND_SERVICE; [] means none.",
		"进程保留的 capability，例如 NET_BIND_SERVICE；[] 表示一个也不保留。",
	},
	{
		"A directory below /run that drover makes for the account before a start and removes after the end. " +
			"With copies each has its own: NAME@1 and so on.",
		"/run 下的目录，drover 在启动前为账户创建，结束后删除。有副本时每个副本各有一个：NAME@1 等。",
	},
	{"Limits that the kernel enforces.", "由内核强制执行的限制。"},
	{"Memory of the process and its children, by the control group.", "进程及其子进程的内存，由 cgroup 限制。"},
	{
		"Processor time of the process and its children, in percent of one processor.",
		"进程及其子进程的 CPU 时间，占一个处理器的百分比。",
	},
	{"Processes and threads of the process and its children.", "进程及其子进程的进程数和线程数。"},
	{
		"Open descriptors of each process (RLIMIT_NOFILE). infinity is the most that the kernel allows.",
		"每个进程打开的描述符数（RLIMIT_NOFILE）。infinity 是内核允许的最大值。",
	},
	{"The size of a core file (RLIMIT_CORE).", "core 文件的大小（RLIMIT_CORE）。"},
	{"Memory that a process may lock (RLIMIT_MEMLOCK).", "进程可锁定的内存（RLIMIT_MEMLOCK）。"},
	{"The stack of the main thread (RLIMIT_STACK).", "主线程的栈（RLIMIT_STACK）。"},
	{"Processes of the account on the host (RLIMIT_NPROC).", "该账户在主机上的进程数（RLIMIT_NPROC）。"},
	{"The size of a file that a process writes (RLIMIT_FSIZE).", "进程所写文件的大小（RLIMIT_FSIZE）。"},
	{
		"Whether a start fails on a host that cannot give open_files and the limits below it, nice and oom_score_adjust exactly. " +
			"Otherwise the process gets the nearest values, and drover why tells them.",
		"主机无法准确给出 open_files 及其后的限制、nice 和 oom_score_adjust 时，启动是否失败。否则进程得到最接近的值，drover why 会说明。",
	},
	{
		"Limits that drover judges: it ends and relaunches a process that stays above one.",
		"由 drover 判断的限制：进程持续超出时，drover 结束并重新拉起它。",
	},
	{"Memory, in percent of the host.", "内存，占主机的百分比。"},
	{"Processor time, in percent of the host.", "CPU 时间，占主机的百分比。"},
	{
		"The number of copies of a process with run: NAME@1 to NAME@N, each a process of its own with its " +
			"number in DROVER_COPY. Without copies there is one process NAME. copies: 1 is NAME@1.",
		"使用 run 的进程的副本数：NAME@1 至 NAME@N，每个副本都是单独的进程，编号在 DROVER_COPY 中。省略时只有一个进程 NAME；copies: 1 为 NAME@1。",
	},

	// when it runs
	{"With true the process runs once for each start, and is not relaunched.", "为 true 时，每次启动只运行一次，不再拉起。"},
	{
		"As once, and no apply starts the process: it runs when somebody or a schedule starts it.",
		"与 once 相同，并且 apply 不启动该进程：只有人或定时操作启动它时才运行。",
	},
	{"The process runs at times instead of always.", "进程按时运行，而不是一直运行。"},
	{
		"A crontab expression: minute, hour, day of month, month, day of week. `CRON_TZ=Asia/Tokyo` may stand before it " +
			"in place of time_zone.",
		"crontab 表达式：分、时、日、月、星期。前面可以写 `CRON_TZ=Asia/Tokyo`，代替 time_zone。",
	},
	{"The time between two runs, from begin to begin.", "两次运行的间隔，从开始到开始。"},
	{"The time zone of cron, such as Asia/Shanghai.", "cron 的时区，例如 Asia/Shanghai。"},
	{"What happens to a run that is due while the one before still runs.", "到期时上一次运行尚未结束的处理方式。"},
	{"What happens to runs that were due while the host was down.", "主机停机期间到期的运行的处理方式。"},
	{"Each run begins later by a random time up to this one.", "每次运行随机推迟，最多推迟该时间。"},
	{"With once or schedule: drover ends a run after this time.", "用于 once 或 schedule：运行超过该时间时 drover 将其结束。"},
	{
		"When a start has succeeded and a relaunch counts as up; until then the status is not-ready. It has " +
			"exactly one of notify, notify_fd, http, tcp, log, exec and alive.",
		"启动何时算成功、拉起何时算恢复；在此之前状态为 not-ready。notify、notify_fd、http、tcp、log、exec、alive 应恰好给出一个。",
	},
	{
		"The process sends READY=1 to the socket in NOTIFY_SOCKET, as sd_notify(3) does.",
		"进程向 NOTIFY_SOCKET 的 socket 发送 READY=1，与 sd_notify(3) 相同。",
	},
	{"The process, which needs run, writes a newline to this descriptor.", "进程向该描述符写入换行；进程须使用 run。"},
	{
		"The URL answers a GET with a status from 200 to 399. Certificates are verified, unless insecure is true.",
		"该 URL 对 GET 应答 200 至 399 的状态码。证书会被校验，除非 insecure 为 true。",
	},
	{
		"With true drover accepts every certificate of an https URL, also one that has expired or that is for " +
			"another name.",
		"设为 true 时，drover 接受 https 网址的任何证书，包括过期的和域名不符的。",
	},
	{"The address accepts a connection.", "该地址接受连接。"},
	{"A line of the output, or of log_file, matches.", "输出或 log_file 中有一行符合。"},
	{"The command exits with status 0.", "命令的退出码为 0。"},
	{"The process has run for this time; 0s means that it is ready as soon as it runs.", "进程已运行该时间；0s 表示运行即就绪。"},
	{
		"How long drover waits. After that the start has failed. EXTEND_TIMEOUT_USEC= extends it.",
		"drover 等待的时间，超过即为启动失败。可用 EXTEND_TIMEOUT_USEC= 延长。",
	},
	{
		"With report the process runs on and is not-ready. With stop drover ends it, and a relaunch counts as " +
			"one that did not last.",
		"report：进程继续运行，状态为 not-ready。stop：drover 结束进程，拉起计为没有维持住。",
	},
	{
		"What must hold before a start: NAME or NAMESPACE/NAME of a process on the same host, and its state.",
		"启动的前提：同一主机上某个进程（NAME 或 NAMESPACE/NAME）及其状态。",
	},
	{
		"The policy of relaunches. A process with once or schedule has none.",
		"拉起策略。带 once 或 schedule 的进程没有拉起策略。",
	},
	{"With on-failure a process that succeeds is finished.", "为 on-failure 时，成功退出的进程即为结束。"},
	{
		"The pause before the second relaunch; the first one after a healthy run is at once.",
		"第二次拉起之前的等待时间；正常运行之后的第一次拉起立即进行。",
	},
	{"The longest pause; at least delay.", "最长的等待时间，不小于 delay。"},
	{"Each pause is this many times as long as the one before.", "每次等待时间是上一次的多少倍。"},
	{"Each pause is longer or shorter by a random share up to this one.", "每次等待时间随机增减，幅度不超过该比例。"},
	{"A run of this length is healthy: the count and the pauses begin anew.", "运行达到该时长即为正常：次数和等待时间重新计算。"},
	{
		"drover gives the process up after this many relaunches without a healthy run.",
		"连续拉起该次数而没有一次正常运行时，drover 放弃拉起。",
	},
	{"The ends that count as success, such as [0, TERM].", "视为成功的退出码或信号，例如 [0, TERM]。"},
	{"The ends after which drover does not relaunch.", "出现这些退出码或信号时 drover 不再拉起。"},
	{
		"The check of a running process. It has exactly one of exec, http, tcp and watchdog.",
		"对运行中进程的健康检查。exec、http、tcp、watchdog 应恰好给出一个。",
	},
	{
		"The process sends WATCHDOG=1 to NOTIFY_SOCKET at least once in every.",
		"进程在每个 every 的时间内至少向 NOTIFY_SOCKET 发送一次 WATCHDOG=1。",
	},
	{"The time between two checks.", "两次检查的间隔。"},
	{"A check that lasts longer has failed.", "检查超过该时间即为失败。"},
	{"This many failed checks in a row make the process unhealthy.", "连续失败该次数时，进程为健康检查异常。"},
	{"Failed checks do not count for this time after a start.", "启动之后的该时间内，检查失败不计。"},
	{"What drover does with an unhealthy process.", "drover 对健康检查异常的进程的处理方式。"},

	// how it stops, and what drover keeps
	{
		"The command that stops the process. After it the process has timeouts.stop before the first signal.",
		"停止进程的命令。命令之后，进程在 timeouts.stop 内没有结束才发送第一个信号。",
	},
	{
		"The signals of a stop, each with the time until the next one. Without KILL a process that remains is " +
			"a failed stop. Real-time signals are RTMIN+N and RTMAX-N, as kill(1) counts them.",
		"停止时发送的信号，各带到下一个信号为止的时间。没有 KILL 时，进程仍在即为停止失败。实时信号写作 RTMIN+N 或 RTMAX-N，编号与 kill(1) 相同。",
	},
	{
		"What a stop ends: everything that the run has left, or the main process alone.",
		"停止的范围：本次运行留下的全部进程，或仅主进程。",
	},
	{
		"A command that takes the process out of use before a stop, such as out of a load balancer.",
		"停止之前让进程退出服务的命令，例如从负载均衡中摘除。",
	},
	{"The pause between the command and the stop.", "该命令与停止之间的等待时间。"},
	{"How the process reads its configuration again.", "进程重载配置的方式。"},
	{"How long the commands of the process may run.", "进程的各个命令可运行的时间。"},
	{"The start command.", "启动命令。"},
	{"The stop command, and the process after it.", "停止命令，以及其后的进程。"},
	{"The reload command.", "重载命令。"},
	{"The version command.", "版本命令。"},
	{"What drover keeps of the standard output and the standard error.", "drover 保存的标准输出和标准错误。"},
	{"A larger file is rotated.", "文件超过该大小时轮转。"},
	{"How many files remain.", "drover 保留的文件数。"},
	{"drover removes older files.", "drover 删除更旧的文件。"},
	{"drover compresses files that are rotated.", "drover 压缩已轮转的文件。"},
	{
		"The run command writes to pipes, not to files: for a program that opens /dev/stdout or /dev/stderr by " +
			"name. While no agent runs, it waits when a pipe is full, at 1 MiB.",
		"run 命令写入管道而不是文件：用于按名称打开 /dev/stdout 或 /dev/stderr 的程序。没有 Agent 运行时，管道写满（1 MiB）后它会等待。",
	},
	{
		"A log that the process writes itself: a file, or a directory whose newest file counts. drover shows " +
			"it, and never rotates or removes it.",
		"进程自己写的日志：文件，或以其中最新文件为准的目录。drover 只显示它，从不轮转或删除。",
	},
	{"Files of the process whose checksums drover compares.", "由 drover 核对校验值的进程文件。"},
	{"The file.", "文件。"},
	{"Its expected SHA-256.", "文件应有的 SHA-256。"},
	{"Its expected MD5.", "文件应有的 MD5。"},
	{"Labels to select processes by. They grant no rights.", "用来选择进程的标签，不授予权限。"},
	{"The report id in alarms (GSE report_id).", "告警中的上报 ID（GSE report_id）。"},
	{
		"How many processes with process_name there should be of a daemon with start. A smaller number shows in the " +
			"status. For several processes with run use copies.",
		"用 start 启动的守护进程应有多少个名为 process_name 的进程。数量不足时会在状态中显示。用 run 运行多个进程时，使用 copies。",
	},
	{
		"What becomes of the process on a host that hosts.select no longer matches: the host keeps it, or " +
			"drover stops and removes it.",
		"主机不再符合 hosts.select 时如何处理其上的进程：keep 为保留，stop 为停止并移除。",
	},
	{
		"What drover does if the running process differs from its spec: it reports the difference, or also " +
			"restarts the process.",
		"运行中的进程与配置不一致时的处理方式：只上报差异，或同时重启进程。",
	},
	{
		"How an apply spreads over the hosts: the processes with equal rollouts go through them together, batch by " +
			"batch. The flags of drover apply override it.",
		"apply 如何在主机上展开：rollout 相同的进程一起逐批执行。drover apply 的选项优先于它。",
	},
	{
		"The number of hosts in a batch. A share is rounded down to at least one host.",
		"每批的主机数。比例向下取整，至少一台。",
	},
	{"The number of hosts in the first batch, of which none may fail.", "第一批（灰度）的主机数，不允许失败。"},
	{
		"Takes the canaries from the hosts that match, such as ring=early. If fewer match than canary, those " +
			"are the canaries; if none matches, any host.",
		"从匹配的主机中选取灰度主机，例如 ring=early。匹配的主机少于 canary 时，只用这些主机；都不匹配时用任意主机。",
	},
	{"How long the processes of a batch must stay well after its last outcome.", "观察期：一批的最后一个执行结果之后，进程须保持正常的时间。"},
	{"The wait after the bake.", "观察期之后的等待时间。"},
	{
		"How many hosts may fail before the rollout pauses. A share is rounded down.",
		"分批发布暂停之前允许失败的主机数。比例向下取整。",
	},
	{
		"How many hosts may be without the running process at the same time, for any reason. A batch begins smaller or " +
			"later. A share is rounded down to at least one host.",
		"允许同时没有运行该进程的主机数，不论原因。为此批次可能缩小或推迟。比例向下取整，至少一台。",
	},
	{"What sorts the hosts; hosts without it come last.", "主机按它排序；没有它的主机排在最后。"},
	{
		"Spreads the canaries and each batch over the values of a label or fact, such as zone: hosts with different values " +
			"take turns.",
		"按标签或属性（例如 zone）的值分散灰度主机和每一批：不同值的主机轮流执行。",
	},
	{
		"With true the rollout leaves out hosts that are not connected; otherwise they count as failed.",
		"为 true 时跳过未连接的主机；否则它们计为失败。",
	},
	{
		"With true the rollout waits after its canaries until another person approves it.",
		"为 true 时，灰度之后等待另一人批准。",
	},
	{
		"With true drover undoes the apply by itself, when more hosts fail than may fail: without it, the rollout pauses. " +
			"The hosts that it has reached go back at once.",
		"为 true 时，失败的主机超过允许数，drover 便自动撤销本次应用，已发布的主机立即恢复；否则发布只会暂停。",
	},

	// a file above its processes
	{"names with processes", "以进程名为键的键值对"},
	{"The namespace of the processes.", "各进程的命名空间。"},
	{"The revision that drover get shows. An apply ignores it.", "drover get 显示的版本号，apply 会忽略它。"},
	{
		"Fields for all processes of the file: any but run, start, pid_file. A process takes environment, limits, restart, log, " +
			"labels, after, timeouts, rollout key by key from here. Any other field of the process replaces the default, and null " +
			"removes it.",
		"文件中所有进程共用的字段，run、start、pid_file 除外。environment、limits、restart、log、labels、after、timeouts、rollout 按键逐项合并；" +
			"其他字段以进程自己的为准，null 表示去掉默认值。",
	},
	{
		"The processes by name. drover explain without a field lists the fields of a process.",
		"以名称为键的各个进程。不带字段的 drover explain 列出进程的字段。",
	},
	{
		"Further forms of these processes, for other hosts. drover get -o json writes it; in YAML it is a document of its own.",
		"这些进程用于其他主机的其他形式。由 drover get -o json 写出；在 YAML 里是单独的文档。",
	},

	// what only the GSE and JOB APIs know
	{
		"What only the GSE and JOB APIs know of a process. With it drover runs the process as these APIs demand it. " +
			"drover get writes it for processes of these APIs; do not write it yourself.",
		"只有 GSE 和 JOB 的 API 才有的内容。带有它的进程按这些 API 的要求运行。drover get 会为这些 API 的进程写出它；请勿自行编写。",
	},
	{"The command of a restart.", "重启命令。"},
	{"The command of drover kill. Without it drover sends KILL.", "drover kill 的命令。省略时 drover 发送 KILL。"},
	{"The time limit of each command.", "每个命令的时限。"},
	{
		"When the process must have appeared; it must run on until ready.alive.",
		"进程最迟出现的时间；之后须一直运行到 ready.alive。",
	},
	{"The time in which the process must end after its stop command.", "停止命令之后，进程须在该时间内结束。"},
	{
		"GSE start_retries of a process that drover does not relaunch.",
		"GSE 的 start_retries，用于 drover 不拉起的进程。",
	},
	{
		"GSE start_interval of a process that drover does not relaunch.",
		"GSE 的 start_interval，用于 drover 不拉起的进程。",
	},
	{"GSE config_path. It has no effect.", "GSE 的 config_path，不起作用。"},
	{"GSE log_path, if it is not an absolute path.", "GSE 的 log_path，仅在不是绝对路径时出现。"},
	{"Numbers of GSE resource that limit nothing.", "GSE 的 resource 中不起限制作用的数值。"},
	{"A limit that is not from 0 to 100 percent.", "不在 0 至 100 之间的百分比限制。"},
	{"GSE resource.fd. It limits nothing.", "GSE 的 resource.fd，不起限制作用。"},
	{"GSE resource.disk. It limits nothing.", "GSE 的 resource.disk，不起限制作用。"},
	{"GSE resource.net. It limits nothing.", "GSE 的 resource.net，不起限制作用。"},
	{"A crontab rule of a process without schedule. It has no effect.", "没有 schedule 的进程的 crontab 规则，不起作用。"},
	{"JOB cycle_time of a process without schedule. It has no effect.", "没有 schedule 的进程的 JOB cycle_time，不起作用。"},
	{"The caller did not say whether the process is resident.", "调用方没有说明是否为常驻进程。"},
	{"JOB func_id.", "JOB 的 func_id。"},
	{"JOB instance_id.", "JOB 的 instance_id。"},
	{"JOB contact.", "JOB 的 contact。"},
	{"Labels that are not names with strings.", "不是名称和字符串键值对的标签。"},
}

// fields finds the texts of the fields.
//
//nolint:gochecknoglobals // it never changes
var fields = sync.OnceValue(func() map[string]Text {
	all := map[string]Text{}
	for _, t := range Fields {
		all[t.en] = t
	}
	return all
})

// Field returns a text about a field of a process file in a language; ok is false if the catalogue does not have it.
func Field(english string, l Lang) (text string, ok bool) {
	t, ok := fields()[english]
	if !ok {
		return english, false
	}
	return t.In(l), true
}
