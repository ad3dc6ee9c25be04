package words

// LongProcesses are paragraphs of the help of commands about processes, tasks and what has happened. The
// English text of a paragraph is on one line here; the Chinese text has the lines of the help.
//
//nolint:gochecknoglobals // constant texts
var LongProcesses = []Text{
	{
		"drover runs and watches processes on a fleet of hosts. It speaks the process APIs of BlueKing GSE and JOB.",
		"drover 在大量主机上运行并监控进程，兼容 BlueKing GSE 和 JOB 的进程接口。",
	},
	{
		"Name a process as NAMESPACE/NAME. In both parts * matches any text and ? matches one character; " +
			"quote them for the shell. Name a host by its id or as CLOUD:IP.",
		"进程写作 NAMESPACE/NAME（命名空间/名称）。两部分都可使用通配符：'*' 匹配任意文本，'?' 匹配一个字符；\n" +
			"在 shell 中请加引号。主机用 ID 或 CLOUD:IP 表示。",
	},
	{
		"drover uses the server on this host if drover.sock exists in the default data directory. Otherwise " +
			"drover uses the server of DROVER_SERVER, with DROVER_APP_CODE and DROVER_APP_SECRET, for the user of " +
			"DROVER_USER or DROVER_USER_TOKEN; else the server that 'drover login URL' has signed you in to. " +
			"--server, --data-dir and --context choose another server.",
		"如果默认数据目录中有 drover.sock，drover 使用本机的服务器；否则使用 DROVER_SERVER 指定的服务器，\n" +
			"凭据为 DROVER_APP_CODE 和 DROVER_APP_SECRET，用户为 DROVER_USER 或 DROVER_USER_TOKEN；\n" +
			"都没有时使用 'drover login URL' 登录过的服务器。--server、--data-dir 和 --context 可另行指定。",
	},
	{
		"Results go to stdout, messages to stderr. drover honours NO_COLOR, TERM=dumb and --color. On a " +
			"terminal drover speaks the language of DROVER_LANG, LC_ALL, LC_MESSAGES or LANG; --lang chooses it.",
		"结果写到 stdout，提示信息写到 stderr。drover 遵循 NO_COLOR、TERM=dumb 和 --color。\n" +
			"在终端上使用 DROVER_LANG、LC_ALL、LC_MESSAGES 或 LANG 的语言，也可用 --lang 指定。",
	},
	{
		"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not running ('status') or something is wrong ('why'), " +
			"4 no such thing, 5 not allowed, 6 unreachable or timed out, 7 done on some targets only.",
		"退出码：0 完成，1 失败，2 用法错误，3 未运行（'status'）或有异常（'why'），4 不存在，\n" +
			"5 没有权限，6 无法连接或超时，7 仅部分对象完成。",
	},
	{
		"Make processes as process files say. drover prints the plan and asks before it does anything.",
		"按进程文件创建和更新进程。drover 先显示变更计划，确认后才执行。",
	},
	{
		"drover registers, watches and starts new processes. It changes the spec of known processes, and " +
			"restarts a running process if a changed field takes effect only at a start. A process that somebody " +
			"has stopped or unwatched stays as it is. 'drover explain' describes the fields of a file.",
		"新进程会被注册、托管并启动。已有进程会更新配置；如果变更的字段只在启动时生效，正在运行的进程会重启。\n" +
			"被人停止或取消托管的进程保持原样。'drover explain' 说明文件的各个字段。",
	},
	{
		"A start fails beside a copy of the process that drover does not watch: a process with the same " +
			"account and executable, and with the same command line or working directory. --take-over watches the " +
			"copy as the process, with the same pid, and --beside starts all the same.",
		"如果主机上已有一个 drover 没有监控的相同进程（账户和可执行文件相同，且命令行或工作目录相同），启动会失败。\n" +
			"--take-over 直接托管已有的进程，pid 不变；--beside 则仍然另行启动。",
	},
	{
		"A FILE is YAML or JSON, a directory with such files, or - for stdin.",
		"FILE 为 YAML 或 JSON 文件、包含此类文件的目录，或 - 表示 stdin。",
	},
	{
		"In the plan + is a new process, ~ a changed one, - one that is removed, = one without a difference, " +
			"and ! one that stays as it is although the file says otherwise. NAME@1-4 are four copies of NAME. A " +
			"lower number of copies removes those above it, also without --prune.",
		"计划中 + 为新增进程，~ 为有变更，- 为将移除，= 为无差异，'!' 为与文件不一致但保持原样。NAME@1-4 表示\n" +
			"NAME 的四个副本。减少副本数时，多出的副本会被移除，无需 --prune。",
	},
	{
		"With --batch, or with rollout in the file, the apply is a rollout: it goes through the hosts in " +
			"batches and stops itself. See 'drover rollout --help'. Flags override the fields of rollout in the " +
			"file.",
		"使用 --batch，或文件中有 rollout 时，apply 以分批发布的方式执行：按批依次在主机上进行，失败过多时自行暂停。\n" +
			"参见 'drover rollout --help'。命令行选项优先于文件中 rollout 的字段。",
	},
	{
		"Exit codes: 0 done or nothing to do, 1 failed, declined, or somebody else was first, 2 wrong file, " +
			"or no terminal and no --yes, 5 not allowed, 6 unreachable or timed out, 7 done on some targets only, " +
			"or the rollout is paused or held.",
		"退出码：0 完成或无需变更，1 失败、已拒绝，或他人抢先做了变更，2 文件有误，或没有终端又未加 --yes，\n" +
			"5 没有权限，6 无法连接或超时，7 仅部分对象完成，或分批发布已暂停、等待批准。",
	},
	{
		"Show what differs between two moments: the states of processes, grouped by cause, and what happened " +
			"in between: revisions, rollouts, operations, and hosts that joined, went away, came back or got " +
			"another agent. The groups that need attention come first.",
		"显示两个时刻之间的差异：按原因归类的进程状态，以及期间发生的事：配置变更、分批发布、操作，\n" +
			"以及主机的接入、失联、恢复和 Agent 更换。需要关注的排在前面。",
	},
	{
		"A process with the same state at both moments counts as changed if it was started again in between. " +
			"The moments are by the clock of each host. An operation is shown by its first process, and you see " +
			"the operations that 'drover task list' shows you.",
		"两个时刻状态相同、但期间重新启动过的进程也算有变化。时刻以各主机的时钟为准。操作只显示其中第一个进程，\n" +
			"可见范围与 'drover task list' 相同。",
	},
	{
		"Show what 'drover apply' would do, and do nothing.",
		"显示 'drover apply' 将做的变更，但不执行。",
	},
	{
		"With --revision A..B and a NAMESPACE or NAMESPACE/NAME, drover shows what has changed from revision " +
			"A to revision B. With --revision A it shows how the hosts differ from revision A now.",
		"使用 --revision A..B 并给出 NAMESPACE 或 NAMESPACE/NAME 时，显示从修订版本 A 到 B 的变更。\n" +
			"使用 --revision A 时，显示各主机当前与修订版本 A 的差异。",
	},
	{
		"Exit codes: 0 nothing to do or no difference, 2 wrong file, 3 something to do or a difference, 4 no such revision, 5 not allowed, 6 unreachable.",
		"退出码：0 无需变更或没有差异，2 文件有误，3 有变更或有差异，4 修订版本不存在，5 没有权限，6 无法连接。",
	},
	{
		"Show how processes differ from the file in force: the spec that a host has, and the running process. " +
			"The file in force is the selection that the host matches, else the last file on that host. drover asks the hosts for the command line, the user, the limits and the names of " +
			"the environment variables of the process, and whether its executable was replaced on disk.",
		"显示进程与当前生效的文件之间的差异，包括主机上的配置和运行中的进程。当前生效的文件是主机所符合的主机选择；\n" +
			"没有选择时，是该主机上最后的文件。drover 会向主机查询进程的命令行、用户、资源限制、环境变量名，以及\n" +
			"可执行文件是否在磁盘上被替换。",
	},
	{
		"missed is a host that does not have the spec of the file, or lacks the process. changed is a spec that " +
			"an operation, a call of GSE or JOB, or an aborted rollout has changed. person is a process that somebody has stopped, unwatched " +
			"or removed. process is a difference of the running process, and config one of a configuration file.",
		"missed：主机没有文件中的配置，或者没有该进程。changed：配置被某个操作、GSE 或 JOB 的调用，或已中止的分批发布修改。person：有人停止、\n" +
			"取消托管或移除了进程。process：运行中的进程有差异。config：配置文件有差异。",
	},
	{
		"Each difference has the command that removes it. drover changes nothing by itself, unless the file says 'drift: mend'.",
		"每项差异都附有消除它的命令。除非文件中写有 'drift: mend'，drover 不会自行修改。",
	},
	{
		"Exit codes: 0 no difference, 3 differences, 4 no such process or host, 5 not allowed, 6 a host did not answer, and no difference was found.",
		"退出码：0 没有差异，3 有差异，4 进程或主机不存在，5 没有权限，6 有主机未应答，且未发现差异。",
	},
	{
		"Change a process in an editor, and apply the change. drover opens the process file of the process in " +
			"$VISUAL, $EDITOR or vi. If the file is wrong, drover opens the editor again, with the errors as " +
			"comments at the top. A value *** stays as it is stored. If somebody else has changed the namespace " +
			"in the meantime, drover does nothing. If drover does not apply your text, it says where the text is.",
		"在编辑器中修改进程并应用。drover 用 $VISUAL、$EDITOR 或 vi 打开该进程的进程文件。文件有误时重新打开，\n" +
			"并在开头以注释列出错误。值为 *** 的字段保持原值。期间有他人修改了该命名空间时，不做任何变更。\n" +
			"没有应用的文本会保留，drover 给出其位置。",
	},
	{
		"Exit codes: 0 done or nothing to do, 1 failed, declined, or somebody else was first, 2 wrong file, " +
			"or no terminal and no --yes, 4 no such process, 5 not allowed, 6 unreachable or timed out, 7 done on " +
			"some hosts only.",
		"退出码：0 完成或无需变更，1 失败、已拒绝，或他人抢先做了变更，2 文件有误，或没有终端又未加 --yes，\n" +
			"4 进程不存在，5 没有权限，6 无法连接或超时，7 仅部分主机完成。",
	},
	{
		"List the events of processes, newest first: time, host, event, cause and caller. The time is that of the host's clock.",
		"列出进程的事件，最新的在前：时间、主机、事件、原因和调用方。时间以主机的时钟为准。",
	},
	{
		"--follow lists recent events, oldest first, and then each event as it arrives. If the server is " +
			"unreachable, drover reconnects and leaves out no event. Ctrl-C or --timeout ends the command. With " +
			"-o json each event is one line.",
		"--follow 先列出最近的事件（最早的在前），再持续显示新事件。服务器无法连接时自动重连，不会遗漏事件。\n" +
			"按 Ctrl-C 或到达 --timeout 时结束。使用 -o json 时每行一个事件。",
	},
	{
		"Describe the fields of a process file: their values, their defaults, and when a change takes effect. " +
			"live is at once, and never touches what runs; restart is the next start.",
		"说明进程文件的字段：取值、默认值和生效时间。live 表示立即生效，不影响正在运行的进程；\n" +
			"restart 表示下次启动时生效。",
	},
	{
		"Show processes as a process file, for 'drover apply'. Without names drover shows all processes. If " +
			"the specs of a process differ between hosts, the file has several documents. Several namespaces are several " +
			"documents, too, and with -o json an array of files. Equal copies are one " +
			"process with copies; drover shows copies that differ, and a single copy such as shop/api@2, by name. " +
			"revision in the file is the latest revision that changed one of its processes; an apply ignores it.",
		"以进程文件的形式显示进程，可用于 'drover apply'。省略名称时显示全部进程。各主机配置不同时，文件包含多个\n" +
			"文档；多个命名空间也是多个文档，使用 -o json 时是文件的数组。配置相同的多个副本合并为一个带 copies 的进程；配置不同的副本，以及 shop/api@2 这样的单个副本，\n" +
			"按名称显示。文件中的 revision 是最近一次修改其中进程的修订版本，apply 时忽略。",
	},
	{
		"With --revision drover shows the processes as they are by that revision of the namespace.",
		"使用 --revision 时，显示该命名空间在该修订版本时的进程。",
	},
	{
		"Exit codes: 0 done, 2 wrong usage, 4 no such process, 5 not allowed, 6 unreachable.",
		"退出码：0 完成，2 用法错误，4 进程不存在，5 没有权限，6 无法连接。",
	},
	{
		"Show who and what started, stopped, changed and ended processes, oldest first: the events of drover events. Without --from these are the last 50.",
		"显示由谁、因何启动、停止、修改和结束了进程，最早的在前；内容来自 drover events。省略 --from 时显示最近 50 条。",
	},
	{
		"Watch processes. If a process does not run, drover starts it. One that runs `once` needs drover start.",
		"托管进程：监控进程，未运行时将其启动；设为 `once` 的进程只由 drover start 启动。",
	},
	{
		"The operation runs on every host that knows the process, or on the hosts of --hosts. For more than " +
			"one target drover asks for confirmation; without a terminal, give --yes. Ctrl-C ends the wait, not " +
			"the operation.",
		"操作在所有已知该进程的主机上执行，或只在 --hosts 指定的主机上执行。对象多于一个时需要确认；\n" +
			"没有终端时请加 --yes。Ctrl-C 只结束等待，不影响操作。",
	},
	{
		"If a host does not answer, its target fails after 10 s at most, or after --host-timeout. The host " +
			"does not begin the operation later. Meanwhile drover prints the results of the other hosts.",
		"主机没有应答时，其执行对象最迟在 10 秒后失败，或在 --host-timeout 之后失败，之后该主机也不会再开始执行。\n" +
			"其间照常显示其他主机的执行结果。",
	},
	{
		"Exit codes: 0 done, 1 failed, 4 no such process, 5 not allowed, 6 unreachable or timed out, 7 done on some targets only.",
		"退出码：0 完成，1 失败，4 进程不存在，5 没有权限，6 无法连接或超时，7 仅部分对象完成。",
	},
	{
		"Make process files of what systemd or supervisord runs. drover prints the process file. What has no " +
			"counterpart in drover is a comment at its process.",
		"把 systemd 或 supervisord 运行的程序转换为进程文件并输出。drover 中没有对应项的内容，\n" +
			"以注释形式写在该进程处。",
	},
	{
		"Make a process file of a configuration of supervisord, with the files that it includes.",
		"把 supervisord 的配置及其包含的文件转换为进程文件。",
	},
	{
		"With --adopt drover applies the file, and takes over each process that runs, as it is: no pid " +
			"changes. A process that does not run is left out. drover prints the file to stdout, everything else " +
			"to stderr, and at the end what makes the old supervisor let go. drover edits and stops nothing of " +
			"the old supervisor.",
		"使用 --adopt 时应用该文件，并原样接管正在运行的进程，pid 不变；未运行的进程不处理。进程文件写到 stdout，\n" +
			"其他信息写到 stderr，最后给出让原监控程序放手的命令。drover 不会修改或停止原监控程序的任何内容。",
	},
	{
		"Exit codes: 0 done, 1 failed or declined, 2 wrong usage, 5 not allowed, 6 unreachable, 7 done for some processes only.",
		"退出码：0 完成，1 失败或已拒绝，2 用法错误，5 没有权限，6 无法连接，7 仅部分进程完成。",
	},
	{
		"Make a process file of units of systemd: services, and timers with the services that they start. A " +
			"name without a slash is a unit of this host, with its drop-ins; anything else is a file.",
		"把 systemd 的单元转换为进程文件：服务，以及定时器和它启动的服务。不含斜杠的名称是本机的单元（含 drop-in），\n" +
			"其他为文件路径。",
	},
	{
		"Print one word for each process on each host, as systemctl does: active, activating, deactivating, " +
			"inactive, failed or unknown. A given-up process has failed; a process in backoff is activating. The " +
			"process of a host that is away is unknown.",
		"为每台主机上的每个进程输出一个词，与 systemctl 相同：active、activating、deactivating、inactive、failed 或\n" +
			"unknown。已放弃拉起的进程为 failed，等待重试的进程为 activating，失联主机上的进程为 unknown。",
	},
	{
		"Exit codes: 0 at least one is active, 3 none is active, 4 no host knows any of them.",
		"退出码：0 至少一个为 active，3 没有一个为 active，4 没有主机知道这些进程。",
	},
	{
		"Tell whether a user may do an operation, and by which right. Without USER the caller is meant. The right must hold on " +
			"the host of --host, or without it on every host. An operation on hosts, such as label-agents, takes no process. " +
			"Only an administrator may ask about others.",
		"判断用户能否执行某操作，以及依据哪项权限。省略 USER 时指调用方自己。权限须在 --host 指定的主机上有效，\n" +
			"未指定时须在所有主机上有效。针对主机的操作（如 label-agents）不写进程。只有管理员可以查询他人。",
	},
	{
		"Exit codes: 0 yes, 1 no, 4 no such user or host, 5 not allowed to ask.",
		"退出码：0 能，1 不能，4 用户或主机不存在，5 无权查询。",
	},
	{
		"Exit codes: 0 at least one has failed, 1 none has failed, 4 no host knows any of them.",
		"退出码：0 至少一个为 failed，1 没有一个为 failed，4 没有主机知道这些进程。",
	},
	{
		"Run the kill command of processes. If the command is empty, kill the process tree. drover no longer watches the processes.",
		"运行进程的强制停止命令；命令为空时强制停止整个进程树。之后不再监控该进程。",
	},
	{
		"With --batch the server operates on a batch of hosts after another, and pauses when too many fail: see drover rollout --help.",
		"使用 --batch 时逐批操作主机，失败过多时暂停，参见 drover rollout --help。",
	},
	{
		"Show what a process wrote to stdout and stderr in its present or last run. For a daemon with a " +
			"log_file, drover shows that file. The lines of several hosts begin with the host, and those of " +
			"several copies with the name of the copy.",
		"显示进程在本次或最近一次运行中写到 stdout 和 stderr 的内容；设有 log_file 的守护进程显示该文件。\n" +
			"多台主机时每行以主机开头，多个副本时以副本名开头。",
	},
	{
		"--follow shows new lines as they come, also of later runs, until Ctrl-C. --since is about all runs, " +
			"unless --run chooses one. The host searches for the lines of --grep, --since and --tail.",
		"--follow 持续显示新行，包括之后的运行，直到 Ctrl-C。--since 针对所有运行，除非用 --run 指定一次。\n" +
			"--grep、--since 和 --tail 由主机负责查找。",
	},
	{
		"A line such as [... 12345 bytes lost ...] stands where the process wrote faster than drover could " +
			"keep. drover replaces control characters; --raw does not.",
		"进程写得太快、drover 来不及保存时，会出现 [... 12345 bytes lost ...] 这样的行。\n" +
			"控制字符会被替换，使用 --raw 时原样输出。",
	},
	{
		"Exit codes: 0 done, 1 failed, 4 no such process, 5 not allowed, 6 no host answered, 7 some hosts did not.",
		"退出码：0 完成，1 失败，4 进程不存在，5 没有权限，6 没有主机应答，7 部分主机没有应答。",
	},
	{
		"List processes as their hosts last reported them. A state is stale when its host is away.",
		"列出主机最近上报的进程。主机失联时状态标为 stale（数据过期）。",
	},
	{
		"States: unknown the host has not checked the process yet, or cannot check it stopped not running, " +
			"and not meant to run (EXITED in other supervisors) starting being started running running not-ready " +
			"running, and not ready yet unhealthy running, and its health check fails flapping relaunched too " +
			"often lately, whatever the process does now stopping drover is ending the process, for example " +
			"because of a limit backoff exited; drover will relaunch the process given-up exited too often; " +
			"drover no longer relaunches the process (FATAL in other supervisors) scheduled between two runs of " +
			"its timetable finished a single run that is over operating an operation is in progress 'drover why' " +
			"explains a state.",
		"状态：\n" +
			"  unknown     未知：主机尚未检查，或无法检查该进程\n" +
			"  stopped     已停止：没有运行，也不需要运行（其他监控程序中的 EXITED）\n" +
			"  starting    启动中\n" +
			"  running     运行中\n" +
			"  not-ready   未就绪：正在运行，但尚未就绪\n" +
			"  unhealthy   健康检查异常：正在运行，但健康检查失败\n" +
			"  flapping    频繁重启：近期拉起过于频繁，与当前是否运行无关\n" +
			"  stopping    停止中：drover 正在结束该进程，例如因为超出限制\n" +
			"  backoff     等待重试：已退出，drover 将拉起\n" +
			"  given-up    已放弃拉起：退出过于频繁，drover 不再拉起（其他监控程序中的 FATAL）\n" +
			"  scheduled   已排期：处于定时规则的两次运行之间\n" +
			"  finished    已结束：只运行一次的进程已运行完毕\n" +
			"  operating   操作中\n" +
			"'drover why' 解释状态的原因。",
	},
	{
		"--at shows the processes as they were at a moment, from what the agents have recorded. The moment is " +
			"by the clock of each host. A state is unknown if no agent ran on the host then, if the server has " +
			"not heard the host since, or if records were lost. Flags that choose hosts choose among their " +
			"present labels.",
		"--at 按 Agent 的记录显示某一时刻的进程，时刻以各主机的时钟为准。当时主机上没有运行 Agent、服务器此后没有\n" +
			"收到该主机的上报，或记录丢失时，状态为 unknown。选择主机的选项按主机当前的标签选择。",
	},
	{
		"If a filter matches nothing, the exit code is 4.",
		"没有符合条件的进程时退出码为 4。",
	},
	{
		"Register a process on hosts. Its spec says how to start, stop and find the process. The command " +
			"neither starts nor watches the process; 'drover start' does both. If a host knows the process " +
			"already, the command fails there; --replace changes the spec.",
		"在主机上注册进程，其配置说明如何启动、停止和查找该进程。本命令既不启动也不监控进程，'drover start' 同时完成两者。\n" +
			"主机已知该进程时命令在该主机上失败；--replace 更新配置。",
	},
	{
		"The file is YAML or JSON with the fields of one process, as in the files of 'drover apply'; - reads stdin. 'drover explain' describes every field. An example:",
		"文件为 YAML 或 JSON，字段与 'drover apply' 文件中的单个进程相同；- 表示 stdin。'drover explain' 说明各个字段。示例：",
	},
	{
		"With --revision the spec is the one that the process has on the host by that revision of its namespace. " +
			"With --selection the spec is that of the selection in force that the host matches. Both bring one host " +
			"back to its file, and leave other hosts and selections as they are.",
		"使用 --revision 时，采用该进程在这台主机上按该修订版本应有的配置；使用 --selection 时，采用该主机所符合的、当前生效的主机选择中的配置。\n" +
			"两者都只让一台主机恢复到文件的内容，其他主机和主机选择不变。",
	},
	{
		"start: ./nginx # starts a daemon; a process that stays in the foreground has run instead pid_file: " +
			"/run/nginx.pid process_name: nginx # base name of the executable directory: /usr/sbin user: root " +
			"stop: ./nginx -s quit # without it, drover sends stop_signals stop_signals: [TERM 10s, KILL] reload: " +
			"./nginx -s reload ready: {tcp: \"127.0.0.1:80\", within: 30s} health: {exec: curl -fs " +
			"http://127.0.0.1/, every: 60s, action: restart} restart: {when: always, delay: 1s, max_delay: 5m} " +
			"limits: {memory: 1GiB, cpu: 200%, tasks: 512} thresholds: {cpu: 50%, memory: 20%} version_command: " +
			"./nginx -v log_file: /var/log/nginx/error.log config_files: - {path: /etc/nginx/nginx.conf, md5: " +
			"9e107d9d372bb6826bd81d3542a419d6} labels: {team: web}",
		"  start: ./nginx                 # 启动守护进程；前台运行的进程改用 run\n" +
			"  pid_file: /run/nginx.pid\n" +
			"  process_name: nginx            # 可执行文件名\n" +
			"  directory: /usr/sbin\n" +
			"  user: root\n" +
			"  stop: ./nginx -s quit          # 省略时发送 stop_signals 中的信号\n" +
			"  stop_signals: [TERM 10s, KILL]\n" +
			"  reload: ./nginx -s reload\n" +
			"  ready: {tcp: \"127.0.0.1:80\", within: 30s}\n" +
			"  health: {exec: curl -fs http://127.0.0.1/, every: 60s, action: restart}\n" +
			"  restart: {when: always, delay: 1s, max_delay: 5m}\n" +
			"  limits: {memory: 1GiB, cpu: 200%, tasks: 512}\n" +
			"  thresholds: {cpu: 50%, memory: 20%}\n" +
			"  version_command: ./nginx -v\n" +
			"  log_file: /var/log/nginx/error.log\n" +
			"  config_files:\n" +
			"    - {path: /etc/nginx/nginx.conf, md5: 9e107d9d372bb6826bd81d3542a419d6}\n" +
			"  labels: {team: web}",
	},
	{
		"'drover ps -o json' shows hosts; 'drover status NAMESPACE/NAME -o yaml' shows the spec of a process.",
		"'drover ps -o json' 显示主机；'drover status NAMESPACE/NAME -o yaml' 显示进程配置。",
	},
	{
		"Run the reload command of processes. The processes keep running.",
		"运行进程的重载命令，进程保持运行。",
	},
	{
		"Ask hosts whether processes could start now: account, groups, directory, program, environment files, limits and room for " +
			"output. drover also runs the preflight command of the process file. It ends nothing. A restart asks the same before it ends a " +
			"process.",
		"询问主机：进程现在能否启动，包括账户、用户组、目录、程序、环境变量文件、限制和输出所需的空间。drover 还会运行进程文件的 preflight 命令。它不结束任何进程。" +
			"重启在结束进程之前也会这样检查。",
	},
	{
		"Restart processes, and watch them from then on.",
		"重启进程，并从此托管。",
	},
	{
		"Give watched processes a full budget of relaunches. drover starts a process now if it was given up or waits for a retry.",
		"恢复被托管进程的拉起次数。已放弃拉起或等待重试的进程会立即启动。",
	},
	{
		"List the revisions of a namespace, newest first. Each change of the spec of a process is a revision: " +
			"by 'drover apply' or 'drover edit', by another operation, or by a call of GSE or JOB. + counts the " +
			"new processes, ~ the changed ones and - the removed ones. -o wide shows the processes and their " +
			"fields.",
		"列出命名空间的修订版本，最新的在前。进程配置的每次变更都是一个修订版本，无论来自 'drover apply'、'drover edit'、\n" +
			"其他操作，还是 GSE、JOB 的调用。+ 为新增进程数，~ 为有变更的，- 为移除的。-o wide 显示具体的进程和字段。",
	},
	{
		"A revision is what the server has accepted. A host that was away does not have it: 'drover diff " +
			"NAMESPACE --revision N' shows how hosts differ from it.",
		"修订版本是服务器已接受的内容。当时失联的主机可能还没有它：'drover diff NAMESPACE --revision N'\n" +
			"显示各主机与该修订版本的差异。",
	},
	{
		"Send a signal, such as HUP or USR1, to the main process, or with --scope tree to all processes of " +
			"its run. What follows is up to the process: if it ends, drover relaunches it.",
		"向主进程发送信号，例如 HUP 或 USR1；--scope tree 发送给本次运行的所有进程。之后由进程自行处理：\n" +
			"如果进程退出，drover 会拉起它。",
	},
	{
		"Start processes and watch them: if a process exits, drover relaunches it. A process that runs already stays as it is.",
		"启动并托管进程：进程退出后自动拉起。已在运行的进程保持原样。",
	},
	{
		"Show processes on each host that knows them: state and its age, process id, resources, commands and message.",
		"显示各主机上的进程：状态及持续时间、进程号、资源用量、命令和信息。",
	},
	{
		"Exit codes: 0 all processes are running, 3 a process is not running, 4 no such process.",
		"退出码：0 全部运行中，3 有进程未运行，4 进程不存在。",
	},
	{
		"Stop processes and no longer watch them. A process that does not run stays as it is.",
		"停止进程，并不再监控。未运行的进程保持原样。",
	},
	{
		"List, show, follow and cancel tasks. A task is one call of an operation, by this command line or by " +
			"a program. The server keeps a task for some days after its end. The beginning of its id, such as " +
			"20260131, is enough to name a recent task.",
		"列出、查看、跟踪和取消任务。一个任务就是一次操作调用，来自命令行或程序。任务结束后保留数天。\n" +
			"ID 的开头（例如 20260131）足以指明最近的任务。",
	},
	{
		"Cancel the targets of a task that have not begun. They never begin, and their outcome is cancelled.",
		"取消任务中尚未开始的对象。它们不再开始，执行结果为 cancelled。",
	},
	{
		"If the server has sent an operation to a host, the host decides: the operation has begun and goes " +
			"on, or it never begins. A host that is away never gets the operation. drover prints how many targets " +
			"are cancelled, how many hosts it asks, and how many targets go on. It does not wait for the hosts.",
		"操作已下发到主机时由主机决定：已开始的继续执行，未开始的不再开始。失联的主机不会收到该操作。\n" +
			"drover 显示已取消的对象数、正在询问的主机数和继续执行的对象数，不等待主机应答。",
	},
	{
		"Follow a task until it is done. Ctrl-C ends the command, not the task.",
		"跟踪任务直到完成。Ctrl-C 只结束本命令，不影响任务。",
	},
	{
		"Exit codes: 0 done, 1 failed, 6 unreachable or timed out, 7 done on some targets only.",
		"退出码：0 完成，1 失败，6 无法连接或超时，7 仅部分对象完成。",
	},
	{
		"Show the processes that use most, as their hosts last reported them, until Ctrl-C. CPU and memory " +
			"are those of a process with its whole tree, in percent of its host. Without a terminal, with --once " +
			"or with another format than a table, drover shows them once.",
		"按主机最近的上报，持续显示资源用量最高的进程，直到 Ctrl-C。CPU 和内存包括整个进程树，为占所在主机的百分比。\n" +
			"没有终端、使用 --once 或表格以外的格式时，只显示一次。",
	},
	{
		"With --last the hosts also tell what each process has used: a block for each part of that time, a bar where the " +
			"process was restarted, and a dot where nobody has measured it. The highest block is the greatest value of the row.",
		"加上 --last 时，各主机还会给出每个进程用过多少：每段时间一个方块，竖线表示进程在此重启，点表示这段时间没有测量。最高的方块是该行的最大值。",
	},
	{
		"A user also has the rights that the server's configuration gives to groups of the identity provider. 'drover user " +
			"list' shows them under BY GROUPS, with the groups of the last sign-in there.",
		"用户还拥有服务器配置授予其身份提供方用户组的权限。'drover user list' 在 BY GROUPS 一栏显示这些权限，用户组以最近一次在那里登录时为准。",
	},
	{
		"End a token or a session of a user, by its id of 'drover user tokens'. The links, sessions and command lines that " +
			"were signed in with it end, too, also those of other users.",
		"按 'drover user tokens' 给出的 ID 终止用户的令牌或会话。用它登录的链接、会话和命令行随之终止，其他用户的也不例外。",
	},
	{
		"Look at processes and operate on them, on one screen of a terminal.",
		"在终端的一个屏幕上查看和操作进程。",
	},
	{
		"The screen lists processes with their states, causes and logs, at most 200 rows at once. It follows " +
			"the events of the server. : jumps to hosts, tasks, rollouts and events; / filters with the flags of " +
			"drover ps. ? lists all keys.",
		"屏幕列出进程及其状态、原因和日志，一次最多 200 行，并跟踪服务器的事件。':' 跳转到主机、任务、分批发布和事件；\n" +
			"/ 用 drover ps 的选项筛选；'?' 列出所有按键。",
	},
	{
		"An operation asks for confirmation first. Above 20 processes, and for a kill, type their number. A " +
			"task goes on when you leave. --read-only has no operations.",
		"操作前需要确认；超过 20 个进程以及强制停止时需输入数量。离开后任务继续执行。--read-only 不提供操作。",
	},
	{
		"Without a connection the screen says since when, and shows the state of that moment.",
		"失去连接时，屏幕显示断开的时间，以及当时的状态。",
	},
	{
		"Exit codes: 0 done, 2 wrong usage, 6 no server found.",
		"退出码：0 完成，2 用法错误，6 找不到服务器。",
	},
	{
		"No longer watch processes. Running processes keep running; drover does not relaunch them if they " +
			"exit.",
		"取消托管：不再监控进程。正在运行的进程继续运行，退出后不再拉起。",
	},
	{
		"Remove processes from drover. Running processes keep running, and drover no longer watches them.",
		"从 drover 注销进程。正在运行的进程继续运行，drover 不再监控。",
	},
	{
		"Wait until each of the processes, on each host that knows it, is in a state: running it runs, ready " +
			"or not ready it runs, and it is ready as 'ready' in its process file says stopped nothing runs, and " +
			"drover does not start it by itself before its timetable does",
		"等待每台已知主机上的各个进程进入某个状态：\n" +
			"  running  正在运行，无论是否就绪\n" +
			"  ready    正在运行，并已按进程文件中的 'ready' 就绪\n" +
			"  stopped  没有运行，且在定时规则的下一时刻之前 drover 不会自行启动",
	},
	{
		"While an operation on the processes is open, the wait goes on. It lasts at least a second: then hosts have told " +
			"what happened before it. A --timeout of a second or less ends with what the last look has seen. " +
			"The command waits 5 minutes unless --timeout says otherwise. " +
			"'drover task watch' follows a task.",
		"这些进程上的操作尚未结束时，会继续等待。等待至少持续一秒，使主机有时间报告此前发生的事。--timeout 不超过一秒时，以最后一次查看的结果结束。未用 --timeout 指定时最多等待 5 分钟。'drover task watch' 跟踪任务。",
	},
	{
		"Exit codes: 0 all are in that state, 1 a process is given up and cannot get there, or its single run " +
			"has failed, 4 no such process, 6 unreachable or not within the timeout.",
		"退出码：0 全部进入该状态，1 有进程已放弃拉起、无法进入该状态，或单次运行失败，4 进程不存在，6 无法连接，或未在限定时间内完成。",
	},
	{
		"Explain why processes are not as they should be, worst first. With a name, drover also explains why " +
			"the process is stopped or waits on purpose, and shows its last events and what to do.",
		"解释进程为什么异常，最严重的在前。给出名称时，也解释进程为什么按要求停止或等待，\n" +
			"并显示最近的事件和处理方法。",
	},
	{
		"Each finding begins with one line that ends with the cause in brackets. Causes have stable names; " +
			"--page explains a cause, with a name in the words of that process. drover groups equal findings on many hosts.",
		"每项以一行开头，行尾方括号内为原因。原因的名称固定不变，--page 解释某个原因，给出进程名时代入该进程的信息。\n" +
			"多台主机上相同的问题合并显示。",
	},
	{
		"Exit codes: 0 nothing is wrong, 3 something is wrong, 4 no such process, 6 the server is " +
			"unreachable.",
		"退出码：0 没有异常，3 有异常，4 进程不存在，6 无法连接服务器。",
	},
	{
		"Add rights to those of an app. 'drover app --help' explains how to write a right. A right with --until gives nothing " +
			"from then on. A right with --max-targets allows no call that changes more.",
		"为应用增加权限。权限的写法参见 'drover app --help'。带 --until 的权限到期后失效。\n" +
			"带 --max-targets 的权限不允许变更目标数更多的调用。",
	},
	{
		"Remove rights from an app. Write each right as 'drover app show' shows it. Without an end and a limit the text removes " +
			"the right whatever its end and its limit.",
		"收回应用的权限。每项权限的写法与 'drover app show' 的显示相同。\n不写到期时间和上限时，不论其到期时间和上限都会收回。",
	},
	{
		"List calls and denials, newest first: caller, address, operation, number of targets and outcome. A " +
			"caller who is not an administrator sees its own calls.",
		"列出调用和拒绝，最新的在前：调用方、地址、操作、执行对象数和执行结果。不是管理员时只显示自己的调用。",
	},
	{
		"Copy the database of a server, as a backup or to move from SQLite to PostgreSQL.",
		"复制服务器的数据库，用于备份，或从 SQLite 迁移到 PostgreSQL。",
	},
	{"Begin no further batch. The hosts of the present batch go on.", "不再开始新的批次，当前批次的主机继续执行。"},
	{
		"Go on with a paused rollout. The hosts that have failed so far no longer count.",
		"继续已暂停的分批发布。此前失败的主机不再计入失败数。",
	},
	{
		"Add rights to those of a user. 'drover user --help' names the roles. A right with --until gives nothing from then on. " +
			"A right with --max-targets allows no call that changes more.",
		"为用户增加权限。角色参见 'drover user --help'。带 --until 的权限到期后失效。\n" +
			"带 --max-targets 的权限不允许变更目标数更多的调用。",
	},
	{
		"Remove rights from a user. Write each right as 'drover user list' shows it. Without an end and a limit the text removes " +
			"the right whatever its end and its limit.",
		"收回用户的权限。每项权限的写法与 'drover user list' 的显示相同。\n不写到期时间和上限时，不论其到期时间和上限都会收回。",
	},
	{
		"Create a token for a user, and print it. drover shows the token only this once, and stores only its " +
			"hash.",
		"为用户创建令牌并输出。令牌仅显示这一次，服务器只保存其哈希。",
	},
}
