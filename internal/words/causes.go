package words

// Cause holds the words of one kind of cause: a title of a few words, a sentence that says what it means, and what an
// operator does about it. Commands stand in backquotes.
type Cause struct{ Title, Meaning, Remedy Text }

// Causes are the words of all causes, by their ids. Package why says how severe each is.
//
//nolint:gochecknoglobals // constant texts
var Causes = map[string]Cause{
	// what a caller requested
	"stopped-by-operation": {
		Text{"Stopped by an operation", "已被操作停止"},
		Text{
			"An operation stopped or killed the process, so it stays down.",
			"有操作停止或强制停止了该进程，因此它保持停止状态。",
		},
		Text{
			"If the stop was intended, do nothing; otherwise run `drover start`.",
			"如果是有意停止，无需处理；否则执行 `drover start`。",
		},
	},
	"unhosted": {
		Text{"Not hosted", "未托管"},
		Text{
			"drover no longer relaunches the process, because an operation ended its hosting.",
			"有操作取消了托管，drover 不再自动拉起该进程。",
		},
		Text{
			"Do nothing, or run `drover host` so that drover keeps it running again.",
			"无需处理；如需 drover 重新保持其运行，执行 `drover host`。",
		},
	},
	"never-started": {
		Text{"Never started", "从未启动"},
		Text{"The process is registered, but nobody has started it yet.", "进程已注册，但还没有人启动过它。"},
		Text{"Run `drover start`.", "执行 `drover start`。"},
	},
	"finished": {
		Text{"Finished", "已结束"},
		Text{
			"The process has done its work; drover does not start it again.",
			"进程已完成工作，drover 不会再次启动它。",
		},
		Text{
			"Check its exit status; `drover start` runs it again.",
			"查看退出码；如需再运行一次，执行 `drover start`。",
		},
	},
	"started-outside": {
		Text{"Started from outside", "由外部启动"},
		Text{
			"Something other than drover started the process; drover watches it nevertheless.",
			"该进程不是由 drover 启动的，但 drover 仍在监控它。",
		},
		Text{
			"Find out what starts it; `drover restart` replaces it with a run of drover.",
			"查明是谁启动了它；`drover restart` 会改由 drover 重新启动它。",
		},
	},
	"relaunched": {
		Text{"Relaunched a short time ago", "刚刚被拉起"},
		Text{
			"The process has ended and runs again; the new run has not lasted long enough yet to count as sound.",
			"进程曾经结束，现已重新运行；这次运行的时间还不够长，尚不能算作稳定。",
		},
		Text{
			"Look for the reason of the last end: the text, the output, and `drover events` name it.",
			"查看上一次结束的原因：原因说明、输出和 `drover events` 中都有。",
		},
	},
	"not-in-force": {
		Text{"Not in force", "配置未生效"},
		Text{
			"The spec asks for something that drover stores but does not do.",
			"进程配置中有一项已保存，但 drover 没有执行它。",
		},
		Text{
			"Restart the process if it says \"at the next start\". Otherwise remove it from the spec, or give the host what it lacks.",
			"如果提示“下一次启动时生效”，请重启进程；否则从进程配置中去掉这一项，或为主机补齐所缺的条件。",
		},
	},
	"operation-under-way": {
		Text{"Operation under way", "操作执行中"},
		Text{"An operation on the process is under way.", "该进程的一个操作正在执行。"},
		Text{"Wait for the task, or follow it with `drover task watch`.", "等待任务结束，或用 `drover task watch` 跟踪进度。"},
	},

	// how a process ends by itself
	"exited": {
		Text{"Ended with status 0", "以退出码 0 退出"},
		Text{
			"The process ended by itself with exit status 0, as if it had nothing left to do.",
			"进程自行退出，退出码为 0，就像已经无事可做。",
		},
		Text{
			"If the command is the process, give it as run; let a start command leave a daemon behind. For a process that may end, " +
				"set restart.when to on-failure, or once.",
			"如果命令本身就是进程，请写在 run 中；start 命令则应留下后台进程。允许结束的进程，请把 restart.when 设为 on-failure，" +
				"或设置 once。",
		},
	},
	"exit-status": {
		Text{"Ended with an error", "异常退出"},
		Text{
			"The process ended by itself with an exit status other than 0.", "进程自行退出，退出码不为 0。",
		},
		Text{
			"Read its last output and its log, and fix the error; then run `drover retry`.",
			"查看退出前输出和日志，排除错误，然后执行 `drover retry`。",
		},
	},
	"killed-by-signal": {
		Text{"Killed by a signal", "被信号终止"},
		Text{"A signal that drover did not send ended the process.", "进程被一个信号终止，该信号不是 drover 发出的。"},
		Text{
			"Find the sender: an operator, a script or another supervisor.",
			"查明信号来自谁：运维人员、脚本，还是其他进程管理工具。",
		},
	},
	"crashed": {
		Text{"Crashed", "程序崩溃"},
		Text{"A fault of the program ended the process.", "程序自身的错误导致进程崩溃。"},
		Text{
			"Give the core dump, if there is one, and the version to the developers of the program.",
			"把版本号和 core 文件（如果有）交给程序的开发者。",
		},
	},
	"out-of-memory": {
		Text{"Out of memory", "内存不足被终止"},
		Text{
			"The kernel's out-of-memory killer ended the process.", "内核因内存不足（OOM）终止了该进程。",
		},
		Text{
			"Give the process or the host more memory, raise the hard limit, or fix the leak.",
			"为进程或主机增加内存，调高硬限制，或修复内存泄漏。",
		},
	},
	"ended-unseen": {
		Text{"Ended unseen", "退出方式不明"},
		Text{
			"The process has gone, and drover did not see how it ended.",
			"进程已不存在，drover 没有看到它是如何结束的。",
		},
		Text{"Read its own log and the kernel log of that time.", "查看该时段的程序日志和内核日志。"},
	},

	// between two instances
	"host-rebooted": {
		Text{"Host rebooted", "主机已重启"},
		Text{"The host rebooted or shuts down, which has ended the process.", "主机重启过或正在关机，该进程因此结束。"},
		Text{
			"A resident process: wait, drover starts a few at a time, or read its start error. A run does not begin " +
				"again: `drover start` begins another one.",
			"常驻进程：请稍候，drover 会分批启动；如果一直没有启动，查看启动错误。单次运行不会再次开始：用 `drover start` 开始新的运行。",
		},
	},
	"flapping": {
		Text{"Flapping", "频繁重启"},
		Text{
			"drover relaunched the process too often lately, whatever its state is now.",
			"不论当前状态如何，drover 近期拉起该进程的次数过多。",
		},
		Text{
			"Treat it as down: `drover events` shows how it ends.",
			"按故障处理：`drover events` 可查看它每次是如何退出的。",
		},
	},
	"held-back": {
		Text{"Start held back", "启动排队中"},
		Text{
			"drover will start the process as soon as the host's relaunch budget allows it.",
			"主机的拉起配额一有余量，drover 就会启动该进程。",
		},
		Text{
			"Wait, and find out why so many processes of the host ended at once.",
			"请稍候，并查明该主机上为什么有这么多进程同时退出。",
		},
	},
	"breaker-open": {
		Text{"Relaunch withheld on all hosts", "全部主机暂停拉起"},
		Text{
			"Too many hosts of the process failed at once from the same cause, so drover does not relaunch it on any host for now.",
			"该进程在过多主机上因同一原因同时失败，drover 暂时不在任何主机上拉起它。",
		},
		Text{
			"Find the common cause; apply a good revision, start it by hand, or run `drover breaker reset`.",
			"找出共同原因；然后应用正确的修订版本、手动启动，或执行 `drover breaker reset`。",
		},
	},
	"waits-for-others": {
		Text{"Waits for other processes", "等待其他进程"},
		Text{
			"Another process that must be up first is not up yet.", "该进程须在另一个进程之后启动，而后者尚未就绪。",
		},
		Text{
			"Mend the process that the text names: the wait then ends. `drover start --with-after` starts both.",
			"修复文中提到的进程，等待随即结束。`drover start --with-after` 会启动这两个进程。",
		},
	},
	"stop-failed": {
		Text{"Would not stop", "停止失败"},
		Text{
			"A stop was requested, but the process was still alive at the end of its check time.",
			"已要求停止，但检查时间结束时进程仍然存活。",
		},
		Text{
			"Find out what it waits for; give it more time, or run `drover kill`.",
			"查明它在等待什么；给它更多时间，或执行 `drover kill`。",
		},
	},

	// limits
	"cpu-limit": {
		Text{"Over its processor limit", "超出 CPU 限制"},
		Text{
			"drover ended the process because it used more CPU than its spec allows.",
			"进程的 CPU 使用超出进程配置允许的上限，drover 已将其终止。",
		},
		Text{
			"Find out what it computes, or raise `thresholds.cpu`; then run `drover retry` if drover gave it up.",
			"查明它在计算什么，或调高 `thresholds.cpu`；如果 drover 已放弃拉起，再执行 `drover retry`。",
		},
	},
	"memory-limit": {
		Text{"Over its memory limit", "超出内存限制"},
		Text{
			"drover ended the process because it used more memory than its spec allows.",
			"进程的内存使用超出进程配置允许的上限，drover 已将其终止。",
		},
		Text{
			"Find out what it keeps, or raise `thresholds.memory`; then run `drover retry` if drover gave it up.",
			"查明它占用内存的原因，或调高 `thresholds.memory`；如果 drover 已放弃拉起，再执行 `drover retry`。",
		},
	},
	"group-limit": {
		Text{"Over the limit of its group", "超出进程组限制"},
		Text{
			"The processes of its namespace used more than their pool, and drover ended this process.",
			"同一命名空间的进程合计用量超出资源池，drover 终止了该进程。",
		},
		Text{
			"Raise the pool, or move processes to other hosts; the scores show why drover chose this process.",
			"调大资源池，或把部分进程移到其他主机；评分说明了为什么选中该进程。",
		},
	},
	"time-limit": {
		Text{"Over its time limit", "超出运行时限"},
		Text{
			"drover ended the run because it took longer than `time_limit` allows.",
			"本次运行的时间超过 `time_limit`，drover 已将其终止。",
		},
		Text{
			"Find out what the run waited for, or raise `time_limit`.",
			"查明本次运行在等待什么，或调大 `time_limit`。",
		},
	},

	// failed starts
	"no-start-command": {
		Text{"No start command", "没有启动命令"},
		Text{"The spec has no start command.", "进程配置中没有启动命令。"},
		Text{"Register the process with a start command.", "带上启动命令重新注册该进程。"},
	},
	"command-not-found": {
		Text{"Command not found", "找不到命令"},
		Text{"drover or its shell could not find the command (status 127).", "drover 或其 shell 找不到该命令（退出码 127）。"},
		Text{
			"Install the program or the interpreter of the script, or correct the path in the command.",
			"安装该程序或脚本的解释器，或更正命令中的路径。",
		},
	},
	"command-not-executable": {
		Text{"Command not executable", "命令无法执行"},
		Text{
			"drover or its shell found the command but could not run it (status 126).",
			"drover 或其 shell 找到了该命令，但无法执行它（退出码 126）。",
		},
		Text{
			"Read the last output: make the file executable for the account, install its interpreter, or name a program for " +
				"this machine and not a directory.",
			"查看退出前输出：让账户有权执行该文件，安装它的解释器，或改为适合本机的程序，而不是目录。",
		},
	},
	"command-failed": {
		Text{"Command failed", "命令执行失败"},
		Text{
			"The command ended with an exit status other than 0, or drover could not run it.",
			"命令执行结束，退出码不为 0，或者 drover 无法执行它。",
		},
		Text{
			"If the text says why the command did not run, mend that; otherwise run the command by hand as that account.",
			"如果文中说明了命令未能执行的原因，先排除它；否则用该账户手动执行命令，输出中会有错误信息。",
		},
	},
	"command-timed-out": {
		Text{"Command timed out", "命令超时"},
		Text{
			"The command ran longer than its time limit, so drover ended it.",
			"命令的执行时间超过时限，drover 已将其终止。",
		},
		Text{
			"Find out what it waits for, or raise `before_start.timeout`, `timeouts.start` or `timeouts.reload`.",
			"查明它在等待什么，或调大时限：`before_start.timeout`、`timeouts.start` 或 `timeouts.reload`。",
		},
	},
	"no-such-directory": {
		Text{"No such directory", "目录不可用"},
		Text{"drover cannot enter the directory in which the command should run.", "drover 无法进入命令的工作目录。"},
		Text{
			"Create the directory, give the account access to it, or correct `directory` in its process file.",
			"创建该目录，给账户访问权限，或在进程文件中更正 `directory`。",
		},
	},
	"no-such-user": {
		Text{"No such user", "账户不存在"},
		Text{"The account or a group of the process does not exist on the host.", "主机上没有该进程的账户或用户组。"},
		Text{
			"Create the account or the group that the text names, or correct `user`, `group` or `groups`.",
			"创建文中指出的账户或用户组，或更正 `user`、`group` 或 `groups`。",
		},
	},
	"no-environment-file": {
		Text{"Environment file unreadable", "无法读取环境变量文件"},
		Text{
			"drover cannot read a file of `environment_files`.", "drover 无法读取 `environment_files` 中的一个文件。",
		},
		Text{"Put the file in its place, or correct its rights or its lines.", "把文件放到位，或更正它的权限或内容。"},
	},
	"needs-root": {
		Text{"Needs root", "需要 root 权限"},
		Text{
			"The agent runs as an ordinary user and cannot run commands as another user.",
			"Agent 以普通账户运行，无法以其他账户执行命令。",
		},
		Text{
			"Run the agent as root, or the process as the agent's own user.",
			"以 root 运行 Agent，或让进程使用 Agent 自己的账户。",
		},
	},
	"refused-by-policy": {
		Text{"Refused by policy", "被主机策略拒绝"},
		Text{
			"The policy of the host's owner does not allow drover to do this.",
			"主机所有者的策略不允许 drover 这样做。",
		},
		Text{
			"Accept it, or ask the owner of the host to change the policy line that the text names.",
			"接受该限制，或请主机所有者修改文中指出的那一行策略。",
		},
	},
	"no-pid-file": {
		Text{"No pid file", "没有 pid 文件"},
		Text{"The process did not write a pid file to the path in its spec.", "进程没有在配置的路径写入 pid 文件。"},
		Text{
			"Correct `pid_file` in its process file (`pid_path` of GSE), or configure the program to write the file there.",
			"更正进程文件中的 `pid_file`（GSE 称为 `pid_path`），或让程序把文件写到该路径。",
		},
	},
	"odd-pid-file": {
		Text{"Odd pid file", "pid 文件异常"},
		Text{
			"The pid file does not name a process that could be this one.", "pid 文件指向的不可能是该进程。",
		},
		Text{
			"Remove the file when nothing runs, and find out which program writes it.",
			"没有进程在运行时删除该文件，并查明是哪个程序写的。",
		},
	},
	"file-system-hangs": {
		Text{"File system hangs", "文件系统无响应"},
		Text{
			"A file of the process is on a file system that does not respond, so drover cannot see its state.",
			"进程的文件所在的文件系统没有响应，drover 无法得知进程状态。",
		},
		Text{
			"Repair the file server, or keep `pid_path` on a local disk.",
			"修复文件服务器，或把 `pid_path` 放在本地磁盘。",
		},
	},

	// starts that somebody else or a check prevents
	"owned-by-another": {
		Text{"Hosted under another name", "已用其他名称托管"},
		Text{
			"The pid file names a process that drover already hosts under another name.",
			"pid 文件指向的进程已由 drover 用另一个名称托管。",
		},
		Text{
			"Keep one of the two names: unhost or unregister the other.",
			"两个名称只保留一个：对另一个取消托管或注销。",
		},
	},
	"another-drover": {
		Text{"Managed by another drover", "由另一个 drover 管理"},
		Text{
			"Another drover on this host manages the process; this drover only watches it.",
			"该进程由本机上的另一个 drover 管理，当前 drover 只做监控。",
		},
		Text{
			"Keep one of the two: unhost the process in the other drover, or stop that drover.",
			"两者只保留一个：在另一个 drover 中取消托管，或停掉那个 drover。",
		},
	},
	"copy-runs": {
		Text{"A copy runs", "已有相同进程在运行"},
		Text{
			"drover does not watch a running process with the same account and executable.",
			"一个账户和可执行文件都相同的进程正在运行，而 drover 没有监控它。",
		},
		Text{
			"Take it over with `drover start --take-over`, or end it, or start beside it with `--beside`.",
			"用 `drover start --take-over` 接管它，或结束它，或用 `--beside` 另起一个。",
		},
	},
	"other-supervisor": {
		Text{"Kept by another supervisor", "仍由其他工具管理"},
		Text{
			"drover has taken the process over, and another supervisor still keeps it.",
			"drover 已接管该进程，但另一个进程管理工具仍在管理它。",
		},
		Text{
			"Let the other supervisor go, as `drover import --adopt` printed.",
			"按 `drover import --adopt` 输出的步骤，让另一个工具放手。",
		},
	},
	"preflight-failed": {
		Text{"Preflight failed", "启动前检查失败"},
		Text{"A start could not succeed, so drover has not ended the running process for it.", "启动不可能成功，因此 drover 没有为此结束正在运行的进程。"},
		Text{"Mend what the text names, and order the operation again.", "更正文中所指的问题，然后重新执行操作。"},
	},
	"died-in-start-check": {
		Text{"Died in its start check", "启动检查期间退出"},
		Text{
			"The process started, but ended within its check time.", "进程已启动，但在检查时间内退出了。",
		},
		Text{"Read its last output, and run its start command by hand.", "查看退出前输出，并手动执行启动命令。"},
	},
	"not-ready": {
		Text{"Not ready", "未就绪"},
		Text{
			"The process runs, but it is not ready: not yet, or not in time.",
			"进程在运行，但未就绪：还没有就绪，或没有按时就绪。",
		},
		Text{
			"Find out what its readiness test waits for, or give it more time.",
			"查明就绪检查在等待什么，或给它更多时间。",
		},
	},

	// problems of a running process
	"unhealthy": {
		Text{"Unhealthy", "健康检查异常"},
		Text{"The process runs, but its health check fails.", "进程在运行，但健康检查未通过。"},
		Text{
			"Repeat by hand what the check does: its command, its URL or its port; restart the process if that helps.",
			"手动验证健康检查的内容（命令、URL 或端口）；如果重启有效，就重启进程。",
		},
	},
	"config-drift": {
		Text{"Configuration drifted", "配置漂移"},
		Text{
			"A configuration file differs from the checksum in the spec.", "一个配置文件与进程配置中的校验值不一致。",
		},
		Text{
			"Restore the file and reload the process, or register the new checksum.",
			"恢复该文件并重载进程，或注册新的校验值。",
		},
	},
	"worker-out-of-memory": {
		Text{"Worker out of memory", "工作进程内存不足"},
		Text{
			"The main process runs, but the kernel's out-of-memory killer ended another process of its run.",
			"主进程在运行，但内核因内存不足（OOM）终止了它的一个子进程。",
		},
		Text{
			"Give it more memory, raise its hard limit, or run fewer workers. Check the lost worker.",
			"增加内存，调高硬限制，或减少工作进程数；并检查被终止的工作进程。",
		},
	},
	"too-few-instances": {
		Text{"Too few instances", "进程实例不足"},
		Text{
			"Fewer instances of the process run than the spec expects.", "正在运行的进程实例少于进程配置要求的数量。",
		},
		Text{
			"Start the missing instances, or correct `expected_instances`.",
			"启动缺少的进程实例，或更正 `expected_instances`。",
		},
	},
	"suspended": {
		Text{"Stopped by a signal", "被信号暂停"},
		Text{
			"The process exists, but a signal has stopped it, so it executes nothing.",
			"进程存在，但被信号暂停，不执行任何操作。",
		},
		Text{"Let it go on with `drover signal CONT`, or restart it.", "用 `drover signal CONT` 让它继续，或重启它。"},
	},
	"log-removed": {
		Text{"Log file removed", "日志文件被删除"},
		Text{
			"Somebody has removed the log files of the running process, so nobody can read its output.",
			"有人删除了正在运行的进程的日志文件，它写入的内容无人能够读取。",
		},
		Text{
			"Save what counts from `/proc/PID/fd/1`, and restart the process with `drover restart`.",
			"从 `/proc/PID/fd/1` 保存需要的内容，再用 `drover restart` 重启进程。",
		},
	},
	"log-full": {
		Text{"Log file system full", "日志文件系统已满"},
		Text{
			"The file system of the log of the running process is full, so the output of the process is lost.",
			"正在运行的进程的日志所在文件系统已满，进程写入的内容会丢失。",
		},
		Text{"Make room on the file system of the agent's directory.", "为 Agent 目录所在的文件系统腾出空间。"},
	},

	// periodic processes
	"waits-for-schedule": {
		Text{"Waits for its time", "等待定时运行"},
		Text{"The process is periodic, and its next run is not due yet.", "这是定时进程，下一次运行的时间还没有到。"},
		Text{
			"Do nothing, or run it now with `drover start`.", "无需处理；如需立即运行，执行 `drover start`。",
		},
	},
	"run-failed": {
		Text{"Run failed", "运行失败"},
		Text{"The last run of the process failed.", "进程最近一次运行失败。"},
		Text{
			"Read the output of the run. With `schedule` the next run follows; without it run `drover start`.",
			"查看这次运行的输出。有 `schedule` 时会按时进行下一次运行；没有时执行 `drover start`。",
		},
	},
	"run-skipped": {
		Text{"Run skipped", "定时运行被跳过"},
		Text{
			"A run was due before the previous run had ended, or while a process of its `after` was not up.",
			"运行的时间已到，但上一次运行还没有结束，或者 `after` 中的进程尚未就绪。",
		},
		Text{
			"Make the runs shorter or less frequent, or choose another `schedule.overlap`.",
			"缩短单次运行的时间，降低运行频率，或修改 `schedule.overlap`。",
		},
	},
	"run-missed": {
		Text{"Run missed", "错过定时运行"},
		Text{
			"A run was due while the host or its agent was down.", "运行时间到达时，主机或 Agent 不在运行。",
		},
		Text{
			"Run it now with `drover start`; `schedule.missed: run-once` does so automatically.",
			"用 `drover start` 立即运行；设置 `schedule.missed: run-once` 可自动补跑。",
		},
	},
	"bad-schedule": {
		Text{"Bad timetable", "定时规则有误"},
		Text{
			"drover cannot read the timetable, so the process never runs.",
			"drover 无法识别定时规则，该进程永远不会运行。",
		},
		Text{
			"Correct the rule that the text names, and register the process again.",
			"更正文中指出的规则，然后重新注册该进程。",
		},
	},

	// what only the server can find
	"agent-away": {
		Text{"Agent away", "Agent 失联"},
		Text{
			"The agent of the host does not respond, so drover does not know the state of the process.",
			"主机的 Agent 没有响应，drover 不知道进程的状态。",
		},
		Text{
			"Check whether the host is up, and whether the agent runs and reaches the server.",
			"检查主机是否正常，Agent 是否在运行、能否连上服务器。",
		},
	},
	"agent-unknown": {
		Text{"Agent unknown", "没有该 Agent"},
		Text{"No agent has joined under the name of the host.", "没有 Agent 以该主机名接入过。"},
		Text{"Correct the host name, or let its agent join.", "更正主机名，或让该主机的 Agent 接入。"},
	},
	"process-unknown": {
		Text{"Process unknown", "没有该进程"},
		Text{"The agent of the host does not know this process.", "主机的 Agent 没有该进程的记录。"},
		Text{
			"Correct the name, or register the process on the host.", "更正名称，或在该主机上注册进程。",
		},
	},
	"operation-queued": {
		Text{"Operation queued", "操作排队中"},
		Text{
			"An operation on the process waits and has not begun.", "该进程的一个操作在等待，尚未开始。",
		},
		Text{
			"Run `drover task get` to see what it waits for.", "执行 `drover task get` 查看它在等待什么。",
		},
	},
}
