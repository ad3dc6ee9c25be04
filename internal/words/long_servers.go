package words

// LongServers are paragraphs of the help of commands about rollouts, schedules, hosts, access, alarms and servers, as
// in LongProcesses.
//
//nolint:gochecknoglobals // constant texts
var LongServers = []Text{
	{
		"List the hosts that have joined, with their labels and facts. HOST is an id, CLOUD:IP or a pattern. " +
			"Without HOST all hosts are listed. If a filter matches nothing, the exit code is 4.",
		"列出已接入的主机及其标签和属性。HOST 为 ID、CLOUD:IP 或通配符，省略时列出全部主机。\n" +
			"没有符合条件的主机时退出码为 4。",
	},
	{
		"--group-by counts the hosts by the values of a label or a fact, such as role, os or fact.rack.",
		"--group-by 按某个标签或属性的值统计主机数，例如 role、os 或 fact.rack。",
	},
	{
		"Set labels of hosts (KEY=VALUE) and remove labels (KEY-), on all of the hosts or on none. HOST is an " +
			"id, CLOUD:IP or a pattern; -l chooses hosts by their labels and facts.",
		"为主机设置标签（KEY=VALUE）或移除标签（KEY-）：要么全部主机都生效，要么都不生效。\n" +
			"HOST 为 ID、CLOUD:IP 或通配符；-l 按标签和属性选择主机。",
	},
	{
		"These labels override the labels of join tokens and of the hosts' own files. If one of these has a " +
			"label that you remove, the removal hides that label. Labels may grant rights, so you need the right " +
			"label-agents for all namespaces on each host.",
		"这里设置的标签优先于接入令牌和主机本地文件中的标签。移除的标签如果也出现在那两处，同样不再生效。\n" +
			"标签可能影响授权，因此需要在每台主机上拥有针对全部命名空间的 label-agents 权限。",
	},
	{
		"Labels also select hosts in process files. drover prints how many hosts come to match a selection, and " +
			"so get its processes, and how many cease to match. --dry-run prints the same and does nothing. drover " +
			"asks for confirmation if it stops processes on hosts that cease to match (leave: stop).",
		"进程文件也按标签选择主机。drover 会显示有多少台主机开始符合选择条件（因而得到这些进程），有多少台不再符合。\n" +
			"--dry-run 只显示，不设置标签。如果会停止不再符合条件的主机上的进程（leave: stop），drover 先请求确认。",
	},
	{
		"Exit codes: 0 done, 1 you did not confirm, 2 wrong usage, 4 no such host, 5 not allowed, 6 unreachable.",
		"退出码：0 完成，1 没有确认，2 用法错误，4 主机不存在，5 没有权限，6 无法连接。",
	},
	{
		"Remove hosts, named by id, CLOUD:IP, pattern or key, or chosen by flags. The server disconnects each host now, " +
			"rejects it if it reconnects, and deletes the records of its processes. The processes on the host keep " +
			"running; to end them, stop them first. The host can join again with a token. Needs an administrator.",
		"移除主机，可用 ID、CLOUD:IP、通配符或密钥指定，也可用参数选择。服务器立即断开这些主机，拒绝再次连接，\n" +
			"并删除其进程记录。主机上的进程继续运行；如需结束，请先停止。主机可用令牌重新接入。\n" +
			"需要管理员权限。",
	},
	{
		"drover asks for confirmation if there is more than one host. If a name has no host, drover removes none.",
		"多于一台主机时，drover 会要求确认。若某个名称没有对应的主机，则一台也不移除。",
	},
	{
		"Exit codes: 0 done, 1 failed, 2 wrong usage, 4 no such host, 5 not allowed, 6 unreachable, 7 some hosts " +
			"were removed and others were not.",
		"退出码：0 完成，1 失败，2 用法错误，4 主机不存在，5 没有权限，6 服务器不可达，\n" +
			"7 部分主机已移除、部分未移除。",
	},
	{
		"Have the agents of hosts run a version of 'drover packages'. HOST is an id, CLOUD:IP or a pattern; " +
			"-l chooses hosts by their labels and facts.",
		"让主机上的 Agent 运行 'drover packages' 中的某个版本。HOST 为 ID、CLOUD:IP 或通配符；\n" +
			"-l 按标签和属性选择主机。",
	},
	{
		"Each host fetches the program, verifies the signature of its owner, and tries the program beside the " +
			"present one. If the new program does not prove itself, the host goes back by itself, and has failed. " +
			"No process ends. A host takes nothing if it pins no release key, or if its policy forbids it.",
		"主机先下载程序，校验其所有者的签名，再与当前程序并行试运行。新程序未能证明可用时，主机自行退回，\n" +
			"并记为失败。升级不会结束任何进程。没有设置发布密钥、或策略禁止升级的主机不会接受任何版本。",
	},
	{
		"This is a rollout, with the flags and commands of one: see drover rollout --help. Without --batch " +
			"all hosts are one batch. drover asks for confirmation if there is more than one host. You need " +
			"the right upgrade-agents for all namespaces on each host.",
		"升级就是一次分批发布，选项和命令与之相同，参见 drover rollout --help。不加 --batch 时全部主机为一批。\n" +
			"主机多于一台时会要求确认。需要在每台主机上拥有针对全部命名空间的 upgrade-agents 权限。",
	},
	{
		"Exit codes: 0 done or scheduled, 1 failed, 2 wrong usage or no such version, 4 no such host, 5 not allowed, " +
			"6 unreachable, 7 done on some hosts only, paused or held.",
		"退出码：0 完成或已排期，1 失败，2 用法错误或版本不存在，4 主机不存在，5 没有权限，6 无法连接，\n" +
			"7 仅部分主机完成、已暂停或等待批准。",
	},
	{
		"Manage the apps that may call the API, their secrets and their rights. Needs an administrator: an " +
			"administrator app, or the server's own account on the server's host.",
		"管理可调用 API 的应用及其密钥和权限。需要管理员：管理员应用，或服务器所在主机上的服务器账户。",
	},
	{
		"A right is \"OPERATIONS on NAMESPACES\", or \"OPERATIONS on NAMESPACES at HOSTS\". OPERATIONS are *, " +
			"read, operate, setup, or names of operations. NAMESPACES are patterns, or biz:7 for a business. " +
			"HOSTS are patterns, area:3 for a cloud area, or, after these, label:role=web,zone!=b for labels of people or " +
			"join tokens. " +
			"Separate the items of a list with commas: \"read,restart on biz:7 at area:0,1:10.2.*\".",
		"权限写作 \"OPERATIONS on NAMESPACES\" 或 \"OPERATIONS on NAMESPACES at HOSTS\"。OPERATIONS 为 *、read、\n" +
			"operate、setup 或具体的操作名。NAMESPACES 为通配符，或 biz:7 表示业务。HOSTS 为通配符，area:3 表示\n" +
			"管控区域，最后可写 label:role=web,zone!=b，表示由管理员或接入令牌设置的标签。多项之间用逗号分隔，例如\n" +
			"\"read,restart on biz:7 at area:0,1:10.2.*\"。",
	},
	{
		"Create an app, and print its code and secret. drover shows the secret only this once. Without CODE " +
			"drover generates a code. A new app has no rights until you grant it one.",
		"创建应用，并输出应用编码和密钥。密钥仅显示这一次。省略 CODE 时自动生成编码。\n" +
			"新应用在授权之前没有任何权限。",
	},
	{
		"Give an app a new secret, print it once, and revoke all others now. Use it if a secret was lost or " +
			"leaked. On the server's own host this command needs no secret.",
		"为应用更换密钥并显示一次，同时立即吊销其他密钥。密钥丢失或泄露时使用。\n" +
			"在服务器所在主机上运行本命令无需密钥。",
	},
	{
		"Give an app a new secret, and print it once. The old secret stays valid for the time of --keep, so " +
			"that callers can switch without a gap.",
		"为应用更换密钥，并显示一次。旧密钥在 --keep 的时间内仍然有效，调用方可以平滑切换。",
	},
	{
		"List and reset the breakers that withhold relaunches on all hosts. A breaker opens if more than 30 % " +
			"of the hosts with one revision of a process, and at least five, fail from one cause within a minute. " +
			"It closes after five minutes, or when no host has that revision any more.",
		"列出和重置在全部主机上暂停拉起的熔断。同一进程的同一修订版本，一分钟内超过 30 % 且不少于五台主机\n" +
			"因同一原因失败时，熔断打开；五分钟后，或不再有主机使用该修订版本时，熔断关闭。",
	},
	{
		"Close a breaker: relaunch the process again. Hosts where the process is down relaunch it within 25 " +
			"s, not all at once. Needs the right to start the process on every host.",
		"关闭熔断，恢复拉起该进程。进程未运行的主机会在 25 秒内错开时间拉起。\n" +
			"需要在每台主机上拥有启动该进程的权限。",
	},
	{
		"Validate a configuration file of 'drover server', or of 'drover proxy' with --role proxy, and list " +
			"every error. The command ignores the environment. If the file has an error, the exit code is 1.",
		"校验 'drover server' 的配置文件（--role proxy 时为 'drover proxy' 的配置文件），列出所有错误。\n" +
			"不读取环境变量。文件有误时退出码为 1。",
	},
	{
		"List servers that you have signed in to, and choose one. 'drover login URL' makes a context.",
		"列出已登录的服务器，并选择其一。上下文由 'drover login URL' 创建。",
	},
	{
		"Commands use the current context if no server runs on this host and DROVER_SERVER is not set. " +
			"--context NAME chooses another one for one command.",
		"本机没有服务器且未设置 DROVER_SERVER 时，命令使用当前上下文。--context NAME 只对本次命令另选上下文。",
	},
	{
		"Write a consistent copy of a SQLite database to a new FILE. The server may keep running. To restore " +
			"the copy, stop the server and replace the database with the copy. Remove the files beside the " +
			"database that end with -wal and -shm.",
		"把 SQLite 数据库的一致副本写入新文件 FILE，服务器可以继续运行。恢复时先停止服务器，用副本替换数据库，\n" +
			"并删除数据库旁边以 -wal 和 -shm 结尾的文件。",
	},
	{
		"The copy holds all records, and secrets as hashes. It does not hold the server's keys: back up " +
			"server/ of the data directory too. It does not hold the programs of 'drover packages' either: add " +
			"them again after a restore. For a PostgreSQL database use pg_dump.",
		"副本包含全部记录，密钥只以哈希形式保存。服务器的密钥不在其中：请同时备份数据目录下的 server/。\n" +
			"'drover packages' 的程序也不在其中：恢复之后请重新添加。PostgreSQL 数据库请使用 pg_dump。",
	},
	{
		"Copy all rows of a SQLite database into an empty PostgreSQL database, to continue with PostgreSQL. " +
			"Stop the server first.",
		"把 SQLite 数据库的全部数据复制到空的 PostgreSQL 数据库，之后改用 PostgreSQL。请先停止服务器。",
	},
	{
		"The copy is one transaction: if it fails, the PostgreSQL database stays empty. drover compares the " +
			"row counts of each table on both sides. In the SQLite file, drover updates only the schema. drover " +
			"rejects a PostgreSQL database that is not empty.",
		"复制在一个事务中完成，失败时 PostgreSQL 数据库仍为空。drover 会核对两边每个表的行数。\n" +
			"对 SQLite 文件只更新表结构。PostgreSQL 数据库不为空时拒绝复制。",
	},
	{
		"Do not put a password into --to, because every user of the machine can read it. Without --to drover " +
			"reads the URL from DROVER_DATABASE. drover reads a password from PGPASSWORD or PGPASSFILE.",
		"不要在 --to 中写密码，因为本机所有用户都能看到。省略 --to 时从 DROVER_DATABASE 读取 URL；\n" +
			"密码从 PGPASSWORD 或 PGPASSFILE 读取。",
	},
	{
		"It runs in the foreground. SIGTERM or Ctrl-C ends it and leaves the supervised processes running. If " +
			"you start it again with the same data directory, it supervises them again.",
		"在前台运行。SIGTERM 或 Ctrl-C 结束它，被监控的进程继续运行；以同一数据目录再次启动后恢复监控。",
	},
	{
		"Environment: DROVER_BOOTSTRAP_APP_CODE and DROVER_BOOTSTRAP_APP_SECRET together set the first app of " +
			"a new data directory. Otherwise drover generates the first app and prints it once.",
		"环境变量：DROVER_BOOTSTRAP_APP_CODE 和 DROVER_BOOTSTRAP_APP_SECRET 一起指定新数据目录的第一个应用；\n" +
			"未设置时自动生成，并显示一次。",
	},
	{
		"Check an installation: the server, its hosts, and the files of drover on this machine. Each finding " +
			"has its remedy.",
		"检查安装情况：服务器、主机，以及本机上的 drover 文件。每项问题都附有处理方法。",
	},
	{
		"The checks are: whether the server answers and is ready, versions, ends of certificates, the clock " +
			"of this machine, hosts that are away, rollouts that are paused or held, packages of agents without their " +
			"whole program, free disk space, and ports that another program has taken. On the machine of a server or an agent there are also modes of " +
			"directories and of the socket, and whether the agent runs and reaches its server.",
		"检查项：服务器是否应答并就绪、版本、证书到期时间、本机时钟、失联的主机、已暂停或等待批准的分批发布、\n" +
			"程序不完整的 Agent 版本包、磁盘剩余空间、被其他程序占用的端口。\n" +
			"在服务器或 Agent 所在的主机上，还检查目录和 socket 的权限，以及 Agent 是否在运行、能否连接服务器。",
	},
	{
		"Exit codes: 0 there is no problem, 3 there is a problem, 6 the server does not answer. A warning is " +
			"not a problem.",
		"退出码：0 没有问题，3 有问题，6 服务器没有应答。警告不算问题。",
	},
	{
		"Replace the keys by which hosts trust this server, without touching a host (docs/ops/rotation.md). " +
			"There are six kinds. Manifest keys sign what agents trust. Sealing keys encrypt the messages of " +
			"servers, agents and proxies. ca keys issue the certificates of servers and proxies. The keys of " +
			"agent-signer, proxy-signer and server-signer issue the credentials of agents, proxies and servers. " +
			"Each key passes through the stages next, present and former. Needs an administrator.",
		"更换主机信任本服务器所用的密钥，无需登录主机（docs/ops/rotation.md）。密钥有六种：manifest 密钥为 Agent\n" +
			"信任的内容签名；sealing 密钥加密服务器、Agent 和 Proxy 的消息；ca 密钥签发服务器和 Proxy 的证书；\n" +
			"agent-signer、proxy-signer 和 server-signer 密钥分别签发 Agent、Proxy 和服务器的凭据。每个密钥依次经过\n" +
			"next、present 和 former 三个阶段。需要管理员权限。",
	},
	{
		"Discard a key of stage next, or retire a key of stage former before it expires. Use it if the key " +
			"has leaked. A host that is away and knows no later key cannot reconnect afterwards. Such a host " +
			"joins again with a token ('drover-agent join') and keeps its key, names and processes.",
		"丢弃处于 next 阶段的密钥，或提前停用处于 former 阶段的密钥。密钥泄露时使用。失联且不知道新密钥的主机\n" +
			"此后无法重新连接；这样的主机可用令牌重新接入（'drover-agent join'），其密钥、名称和进程保持不变。",
	},
	{
		"Advance the rotation of a kind of key by one step. KIND is manifest, sealing, ca, agent-signer, " +
			"proxy-signer or server-signer.",
		"把某种密钥的轮换推进一步。KIND 为 manifest、sealing、ca、agent-signer、\nproxy-signer 或 server-signer。",
	},
	{
		"The first step makes the next key. The server announces it to all hosts within seconds, signed by " +
			"the present key. The second step activates the next key and makes the present key a former key. " +
			"Until it expires, the server uses a former key only for hosts that were away and know no later key.",
		"第一步生成下一个密钥，服务器在数秒内用当前密钥签名并通知所有主机。第二步启用该密钥，当前密钥转为旧密钥。\n" +
			"旧密钥在到期之前只用于曾经失联、尚不知道新密钥的主机。",
	},
	{
		"With --wait the command takes both steps of each kind, and waits before and after the second one until all " +
			"online hosts use the keys. With --all it replaces the keys of every kind.",
		"使用 --wait 时，本命令完成每种密钥的两步，并在第二步前后等待所有在线主机用上这些密钥。\n使用 --all 时轮换所有种类的密钥。",
	},
	{
		"The server rejects the second step while a host that is online has not received the next key. If " +
			"several servers share a database, import the keys of this server into the others between the two " +
			"steps ('drover server keys').",
		"只要还有在线主机没有收到下一个密钥，服务器就拒绝第二步。多台服务器共用一个数据库时，请在两步之间\n" +
			"把本服务器的密钥导入其他服务器（'drover server keys'）。",
	},
	{
		"Sign in.",
		"登录服务器。",
	},
	{
		"'drover login URL' signs you in to a server elsewhere. The command shows an address and eight " +
			"letters. Open the address in a browser that is signed in to the console, type the letters, and " +
			"confirm. Then drover stores a token, which is valid for 12 hours, and a context with the server. The " +
			"file is drover/credentials in $XDG_CONFIG_HOME or ~/.config, and only you can read it. The server " +
			"needs a certificate of the system's authorities, or of the file of --ca.",
		"'drover login URL' 登录其他主机上的服务器。命令显示一个地址和八个字母：在已登录控制台的浏览器中打开该地址，\n" +
			"输入这些字母并确认。随后 drover 保存有效期 12 小时的令牌，以及包含该服务器的上下文，文件为 $XDG_CONFIG_HOME\n" +
			"或 ~/.config 下的 drover/credentials，仅本人可读。服务器的证书须由系统信任的机构或 --ca 文件中的机构签发。",
	},
	{
		"'drover login' prints a link that signs a browser in to the console, once and within 10 minutes. The " +
			"link signs you in. An administrator may name another user, and give the link to that person.",
		"'drover login' 输出一个登录控制台的链接，10 分钟内有效，仅可使用一次，登录身份为你本人。\n" +
			"管理员可以指定其他用户，并把链接交给该用户。",
	},
	{
		"End the sign-in of the current context, or of --context: the server rejects the token from now on, " +
			"and drover forgets the token. The context stays, and 'drover login --context NAME' signs you in " +
			"again.",
		"退出当前上下文或 --context 所指上下文的登录：服务器从此拒绝该令牌，drover 也不再保存它。\n" +
			"上下文保留，可用 'drover login --context NAME' 重新登录。",
	},
	{
		"Versions of the agent that hosts can upgrade to ('drover agents upgrade').",
		"主机可以升级到的 Agent 版本（'drover agents upgrade'）。",
	},
	{
		"The owner of the hosts signs each version with a release key, away from the server. Hosts pin its " +
			"public half (release-keys in agent.conf) and run nothing else. So nobody who controls the server can " +
			"give hosts a program of their own (docs/ops/agent-upgrades.md).",
		"每个版本由主机的所有者在服务器之外用发布密钥签名。主机设置其公钥（agent.conf 中的 release-keys），\n" +
			"不运行其他任何程序。因此即使控制了服务器，也无法让主机运行自己的程序（docs/ops/agent-upgrades.md）。",
	},
	{
		"Add the program FILE of the agent with the signature that 'drover packages sign' made. The server " +
			"gets it in pieces. If the command is interrupted, run it again: it sends what is missing. Needs an " +
			"administrator.",
		"添加 Agent 程序 FILE 及 'drover packages sign' 生成的签名。程序分块上传；中断后重新运行即可续传。\n" +
			"需要管理员权限。",
	},
	{
		"Exit codes: 0 done, 1 refused, 5 not allowed, 6 unreachable.",
		"退出码：0 完成，1 被拒绝，5 没有权限，6 无法连接。",
	},
	{
		"Make a release key. The private half goes to FILE, which must not be there yet; keep it away from " +
			"the servers. The public half is printed: put it into agent.conf of each host, as release-keys.",
		"生成发布密钥。私钥写入 FILE，该文件不得已存在；请勿放在服务器上。公钥会输出到屏幕，\n" +
			"请作为 release-keys 写入每台主机的 agent.conf。",
	},
	{
		"Remove a version for an architecture, such as amd64. Hosts that run it go on. The server refuses it " +
			"while a rollout has yet to upgrade a host to it. Needs an administrator.",
		"移除某个版本在某个架构（例如 amd64）上的程序。正在运行该版本的主机不受影响。\n" +
			"如果分批发布还有主机要升级到该版本，服务器拒绝移除。需要管理员权限。",
	},
	{
		"Sign the program FILE of the agent, with the private key of 'drover packages keygen'. The signature " +
			"goes to FILE.sig. It holds the version, the architecture, the sums and the present time.",
		"用 'drover packages keygen' 的私钥为 Agent 程序 FILE 签名。签名写入 FILE.sig，\n" +
			"包含版本、架构、校验值与当前时间。",
	},
	{
		"A host takes no package that was signed before the one that it runs, so nobody can bring back an old " +
			"one. To bring an earlier version to hosts with a later one, sign it anew with --downgrade.",
		"主机不接受签名时间早于当前程序的版本，因此无人能让主机退回旧版本。如需让主机改用较早的版本，\n" +
			"请用 --downgrade 重新签名。",
	},
	{
		"List and remove the proxies of areas that have no route to the servers. A proxy joins by 'drover " +
			"proxy join', with a token of 'drover token create --role proxy'. Needs an administrator.",
		"列出和移除管控区域的 Proxy，这些区域无法直连服务器。Proxy 用 'drover proxy join' 接入，令牌由\n" +
			"'drover token create --role proxy' 创建。需要管理员权限。",
	},
	{
		"Remove a proxy, named by its name or key. The server disconnects the proxy now and rejects it if it " +
			"reconnects. Its agents connect to the other proxies of their area. If the area has no other proxy, " +
			"its agents are away until they reach a proxy or a server, so add another proxy first. The removed " +
			"proxy can join again with a token. Needs an administrator.",
		"移除 Proxy，可用名称或密钥指定。服务器立即断开该 Proxy，并拒绝它再次连接。它的 Agent 会改连本区域的其他\n" +
			"Proxy；如果没有其他 Proxy，这些 Agent 会失联，直到连上某个 Proxy 或服务器，因此请先添加另一个 Proxy。\n" +
			"被移除的 Proxy 可用令牌重新接入。需要管理员权限。",
	},
	{
		"Serve the agents of an area that have no route to the servers. The agents join and connect through " +
			"this host. Run 'drover proxy join' first, which makes this host a proxy of the area. An area may " +
			"have several proxies; if a proxy has no route to the servers, its agents connect to another proxy.",
		"为无法直连服务器的管控区域的 Agent 提供服务，这些 Agent 经由本机接入和连接。请先运行 'drover proxy join'，\n" +
			"把本机设为该区域的 Proxy。一个区域可以有多个 Proxy；某个 Proxy 无法连接服务器时，它的 Agent 改连其他 Proxy。",
	},
	{
		"Flags override the environment (DROVER_FABRIC is --fabric, and so on), which overrides the file of " +
			"--config. 'drover config check --role proxy' validates such a file.",
		"命令行选项优先于环境变量（DROVER_FABRIC 即 --fabric，依此类推），环境变量优先于 --config 的文件。\n" +
			"'drover config check --role proxy' 校验该文件。",
	},
	{
		"It runs in the foreground; SIGTERM or Ctrl-C ends it. A proxy also starts while the servers are " +
			"unreachable, and then accepts the agents that it knows already.",
		"在前台运行，SIGTERM 或 Ctrl-C 结束它。服务器无法连接时 Proxy 也能启动，此时只接受已知的 Agent。",
	},
	{
		"Make this host a proxy of an area, with a token of 'drover token create --role proxy'. Afterwards " +
			"'drover proxy' serves the area.",
		"用 'drover token create --role proxy' 创建的令牌，把本机设为管控区域的 Proxy。\n" +
			"之后由 'drover proxy' 为该区域提供服务。",
	},
	{
		"The proxy makes its keys on this host and never sends a private key. The proxy verifies the server " +
			"by the fingerprint in the token. Other users of this host can read a token on the command line, so " +
			"--token - reads the token from stdin. If a proxy joins again with the same data directory, it keeps " +
			"its keys.",
		"Proxy 在本机生成密钥，私钥从不外传，并按令牌中的指纹校验服务器。命令行中的令牌可能被本机其他用户看到，\n" +
			"因此可用 --token - 从 stdin 读取。以同一数据目录重新接入时保留原有密钥。",
	},
	{
		"Exit codes: 0 joined, 1 failed, 2 wrong usage, 5 not allowed (token, fingerprint, clock), 6 " +
			"unreachable.",
		"退出码：0 已接入，1 失败，2 用法错误，5 没有权限（令牌、指纹或时钟），6 无法连接。",
	},
	{
		"Manage the addresses that receive alarms, such as relaunches, processes that were given up and " +
			"exceeded limits. docs/alarms.md shows a delivery and how to verify its signature. If a receiver is " +
			"down, drover keeps the alarms and delivers them later. Needs an administrator.",
		"管理告警接收方。告警包括拉起、放弃拉起和超出限制等。docs/alarms.md 给出投递示例及签名的校验方法。\n" +
			"告警接收方不可用时，drover 保留告警，稍后再投递。需要管理员权限。",
	},
	{
		"Change the address of a receiver, which alarms it gets, or its note. drover retries undelivered " +
			"alarms at once. --namespace replaces all previous namespaces, and --selector the previous " +
			"expression.",
		"修改告警接收方的地址、告警范围或备注。尚未投递的告警会立即重试。--namespace 替换原有的全部命名空间，\n" +
			"--selector 替换原有的表达式。",
	},
	{
		"Deliver alarms to an address from now on, and print the secret that signs them. drover shows the " +
			"secret only this once. 'drover receiver test' tries the address.",
		"从现在起向一个地址投递告警，并输出签名密钥。密钥仅显示这一次。'drover receiver test' 可测试该地址。",
	},
	{
		"Sign with a new secret from now on, and print it. drover shows the secret only this once. If a " +
			"receiver rejects deliveries until it knows the new secret, drover retries them, and no alarm is " +
			"lost.",
		"从现在起使用新的签名密钥，并输出该密钥，仅显示这一次。告警接收方在换用新密钥之前拒绝的投递会重试，不会丢失告警。",
	},
	{
		"Deliver a test alarm now, and show the result. The alarm is a process_restart_success of " +
			"drover:test. If the delivery fails, the exit code is 1.",
		"立即投递一条测试告警，并显示结果。该告警是 drover:test 的 process_restart_success。投递失败时退出码为 1。",
	},
	{
		"List, follow, pause, undo and end rollouts. A rollout is an operation or an apply with --batch: the " +
			"server begins it on a batch of hosts, and on the next batch after the processes of the first have " +
			"stayed well. It pauses itself when too many hosts fail.",
		"列出、查看、暂停、撤销和终止分批发布。带 --batch 的操作或 apply 就是分批发布：服务器先在一批主机上执行，\n" +
			"这批进程保持正常之后再开始下一批；失败的主机过多时自行暂停。",
	},
	{
		"End a rollout. It begins no further batch. In the present batch, an operation that has not begun on " +
			"its host never begins.",
		"终止分批发布，不再开始新的批次。当前批次中，尚未在主机上开始的操作不再执行。",
	},
	{
		"Approve a rollout that waits for a person: after its canaries with --canary-approval, or before it " +
			"reaches more hosts than one person may change by the server's --approval-above. Only a person may " +
			"approve, proven by a token or by the server's socket, and not the person who began the rollout.",
		"批准等待人工批准的分批发布：使用 --canary-approval 时在灰度之后等待；超出服务器的 --approval-above\n" +
			"（一人可变更的主机数）时在继续之前等待。只有已用令牌或服务器 socket 证明身份的人可以批准，\n" +
			"且不能是发起人本人。",
	},
	{
		"Speed a rollout up, or slow it down. The hosts that wait get batches of the new size, and every bake and " +
			"pause is as long as the flags say from now on. What the flags do not name stays. The canaries and the order " +
			"of the hosts stay.",
		"加快或放慢分批发布。尚未开始的主机按新的批次大小重新分批；从现在起，观察期和等待时间以选项为准。\n" +
			"没有给出的选项保持不变。灰度主机和主机顺序不变。",
	},
	{
		"Repeat the operation on the failed hosts of a paused or done rollout, in new batches. With --away " +
			"only on the hosts that were not connected. A rollout that is done becomes active again.",
		"在已暂停或已完成的分批发布中，对失败的主机重新分批执行操作。使用 --away 时只针对当时未连接的主机。\n" +
			"已完成的分批发布会重新开始执行。",
	},
	{
		"Take the rollout of an apply back. The hosts that it has reached get the specs that they had when it " +
			"was accepted; a process that it has brought is stopped and removed. The undo goes to all hosts at " +
			"once and needs no approval, whatever plan the rollout had; --batch, --bake and so on slow it down. " +
			"It skips hosts that are away; they follow when they return. A paused rollout ends. Nothing undoes " +
			"the rollout of an operation. Without ROLLOUT drover takes the last apply back, if that made one rollout.",
		"撤销一次 apply 的分批发布。已到达的主机恢复为该发布被接受时的配置，由它新增的进程会停止并移除。\n" +
			"无论原来怎样分批，撤销都同时到达全部主机，也不需要批准；--batch、--bake 等可以放慢它。\n" +
			"失联的主机会跳过，恢复连接后再撤销。已暂停的分批发布随之结束。针对操作的分批发布无法撤销。\n不带 ROLLOUT 时撤销最近一次 apply，前提是它只有一个分批发布。",
	},
	{
		"Exit codes: 0 done, 1 failed or declined, 2 no rollout of an apply, 6 unreachable or timed out, 7 " +
			"done on some hosts only, paused, or held for an approval.",
		"退出码：0 完成，1 失败或已拒绝，2 不是 apply 的分批发布，6 无法连接或超时，\n" +
			"7 仅部分主机完成、已暂停或等待批准。",
	},
	{
		"Follow a rollout until it is done, aborted or paused, or waits for an approval. Ctrl-C ends the " +
			"command, not the rollout.",
		"跟踪分批发布，直到完成、终止、暂停或等待批准。Ctrl-C 只结束本命令，不影响分批发布。",
	},
	{
		"Exit codes: 0 done, 1 failed, 6 unreachable or timed out, 7 done on some hosts only, paused, or held " +
			"for an approval.",
		"退出码：0 完成，1 失败，6 无法连接或超时，7 仅部分主机完成、已暂停或等待批准。",
	},
	{
		"Begin operations at the times of a timetable. The server finds the processes and hosts at each run, " +
			"and the run has the rights that its creator has then. A run is an ordinary task or rollout. The " +
			"server begins no run while an earlier one goes on. It does not catch up a run that was due while no " +
			"server ran: 'drover schedule run' begins it by hand.",
		"按定时规则执行操作。服务器在每次运行时查找进程和主机，权限为创建者当时的权限。每次运行都是普通的任务或\n" +
			"分批发布。前一次运行未结束时，不会开始下一次。没有服务器运行期间错过的运行不会补上，可用 'drover schedule run'\n" +
			"手动执行。",
	},
	{
		"Begin an operation at the times of a timetable. After -- stand an operation and its processes, as on " +
			"the command line of drover: start, stop, restart, reload, kill, signal, host, unhost, retry or " +
			"unregister, with -l, --hosts, --process-label, --host-timeout, --one-of, and the flags of a rollout.",
		"按定时规则执行一个操作。-- 之后写操作及其进程，写法与命令行相同：start、stop、restart、reload、kill、signal、\n" +
			"host、unhost、retry 或 unregister，可用 -l、--hosts、--process-label、--host-timeout、--one-of 和分批发布的选项。",
	},
	{
		"Times that clocks leave out or repeat are as those of periodic processes: see drover explain " +
			"schedule.cron.",
		"时钟调整而跳过或重复的时刻，处理方式与定时进程相同，参见 drover explain schedule.cron。",
	},
	{
		"Run a server that agents on other machines join. It has no agent of its own.",
		"运行服务器，供其他主机上的 Agent 接入。服务器自身不带 Agent。",
	},
	{
		"Flags override the environment (DROVER_HTTP is --http, and so on; separate the items of a list with " +
			"commas), which overrides the file of --config. 'drover config check' validates such a file.",
		"命令行选项优先于环境变量（DROVER_HTTP 即 --http，依此类推；多项用逗号分隔），环境变量优先于 --config 的文件。\n" +
			"'drover config check' 校验该文件。",
	},
	{
		"The API and the fabric speak TLS; agents connect to the fabric. At its first start the server makes " +
			"its own certificate authority in the data directory. Hosts verify the server by the fingerprint in " +
			"their token, callers by server/pki/ca.pem.",
		"API 和消息总线（fabric）都使用 TLS，Agent 连接消息总线。首次启动时，服务器在数据目录中生成自己的证书机构。\n" +
			"主机按令牌中的指纹校验服务器，调用方按 server/pki/ca.pem 校验。",
	},
	{
		"It runs in the foreground; SIGTERM or Ctrl-C ends it. Without the server, agents keep supervising, " +
			"and reconnect once the server is back.",
		"在前台运行，SIGTERM 或 Ctrl-C 结束它。没有服务器时 Agent 照常监控进程，服务器恢复后自动重连。",
	},
	{
		"Copy the keys of a fleet from one server to another. All servers of a fleet have the same keys " +
			"(docs/ops/servers.md). Anybody with these keys controls every host of the fleet.",
		"在服务器之间复制密钥。同一机群的所有服务器使用相同的密钥（docs/ops/servers.md）。\n" +
			"持有这些密钥的人可以控制机群中的每台主机。",
	},
	{
		"Bind a database to the keys of this data directory. If the data directory has no keys, the command " +
			"makes them. Use it only if all servers have lost the keys of the database: every host has to join " +
			"again. Stop all servers of the fleet first.",
		"把数据库绑定到本数据目录的密钥；数据目录没有密钥时自动生成。仅在所有服务器都丢失了该数据库的密钥时使用：\n" +
			"之后每台主机都必须重新接入。请先停止机群的所有服务器。",
	},
	{
		"The database is that of --database or DROVER_DATABASE, as for 'drover server'. Without both it is " +
			"the file in the data directory.",
		"数据库由 --database 或 DROVER_DATABASE 指定，与 'drover server' 相同；都没有时为数据目录中的文件。",
	},
	{
		"Export the keys of the server on this host to a new file that only its owner can read. The server " +
			"may keep running. Anybody with this file controls the fleet: transfer the file securely, and remove " +
			"it after the import.",
		"把本机服务器的密钥导出到新文件，仅所有者可读。服务器可以继续运行。持有该文件的人可以控制机群：\n" +
			"请安全传输，导入后删除。",
	},
	{
		"Import the keys that another server of the fleet has exported. Stop the server of the data directory " +
			"first. The import updates older keys of the same fleet. If the data directory holds keys of another " +
			"fleet, or later keys, the import fails and changes nothing.",
		"导入机群中另一台服务器导出的密钥。请先停止使用该数据目录的服务器。同一机群的较旧密钥会被更新。\n" +
			"数据目录中是其他机群的密钥、或更新的密钥时，导入失败，不做任何变更。",
	},
	{
		"Generate the configuration of a NATS broker (nats-server 2.14 or later) that replaces the embedded " +
			"one ('drover server --nats', docs/ops/servers.md). The broker accepts only the agents, proxies and " +
			"servers of this fleet, each with its own rights. The command needs the keys of the fleet, but no " +
			"database.",
		"生成 NATS 的配置（nats-server 2.14 或更高版本），用来替代内置的 broker（'drover server --nats'，\n" +
			"docs/ops/servers.md）。该 broker 只接受本机群的 Agent、Proxy 和服务器，各有各的权限。\n" +
			"需要机群的密钥，不需要数据库。",
	},
	{
		"Without --out the command prints the configuration, which holds no secret. With --out the command " +
			"writes the configuration, a certificate of the fleet's authority and its key. The certificate is " +
			"valid for a year. To renew it, run the command again and send SIGHUP to nats-server.",
		"省略 --out 时输出配置，其中不含密钥。使用 --out 时写出配置、由机群证书机构签发的证书及其私钥。\n" +
			"证书有效期一年；续期时重新运行本命令，并向 nats-server 发送 SIGHUP。",
	},
	{
		"Ask the server on this host whether it is ready, as GET /readyz does, through its local socket. The " +
			"exit code is 0 if it is ready, 1 if it is not, with the reason, and 6 if it does not answer.",
		"通过本机 socket 查询服务器是否就绪，与 GET /readyz 相同。退出码：0 就绪，1 未就绪（并给出原因），6 没有应答。",
	},
	{
		"Withhold the alarms of processes for some time, such as maintenance. A PROCESS is a pattern " +
			"NAMESPACE/NAME; without any, the hosts and expressions alone choose, and alarms about the hosts are " +
			"withheld, too. drover counts what it withholds. At the end of the silence, it delivers once what " +
			"still holds then, such as a process that stays down. With --cron the silence repeats: --for is the length of each window, and --until ends them all.",
		"在一段时间内（例如维护期间）静默进程的告警。PROCESS 为 NAMESPACE/NAME 通配符；省略时只按主机和表达式选择，\n" +
			"主机自身的告警也被静默。drover 统计被静默的告警；静默结束时，仍然成立的告警（例如进程仍未运行）投递一次。使用 --cron 时静默重复生效：\n" +
			"--for 为每次的时长，--until 为最终结束时间。",
	},
	{
		"Needs an administrator, or the right silence on whole namespaces.",
		"需要管理员，或在整个命名空间上的 silence 权限。",
	},
	{
		"Manage the tokens that hosts join with ('drover-agent join'). drover shows a token only once, when " +
			"it is created, and stores only its hash. A token holds the fingerprint by which a host verifies this " +
			"server. Needs an administrator.",
		"管理主机接入令牌（'drover-agent join'）。令牌只在创建时显示一次，服务器只保存其哈希。令牌中含有主机校验本\n" +
			"服务器所用的指纹。需要管理员权限。",
	},
	{
		"Create a token that hosts join with, and print it. drover shows the token only this once. Each host " +
			"that joins with it gets the area, the labels and the business. If a host retries with the same key, " +
			"because it got no answer, it counts once.",
		"创建主机接入令牌并输出，仅显示这一次。用它接入的主机都会得到其中的管控区域、标签和业务。\n" +
			"主机因没有收到应答而用同一密钥重试时，只计一次。",
	},
	{
		"With --role proxy the token is for a proxy of the area. Such a token has neither labels nor a " +
			"business. Create it before the tokens for the hosts of the area.",
		"使用 --role proxy 时，令牌用于管控区域的 Proxy，不带标签和业务。请先创建它，再为该区域的主机创建令牌。",
	},
	{
		"Revoke a token now. Hosts that have joined with it stay joined; 'drover agents remove' removes a " +
			"host.",
		"立即吊销令牌。已用它接入的主机不受影响，移除主机请用 'drover agents remove'。",
	},
	{
		"Manage users, their rights, and their tokens. Needs an administrator.",
		"管理用户、权限和令牌。需要管理员权限。",
	},
	{
		"A user has own rights in the console, and in calls with a token and without an app. A call by an app " +
			"for a user has the rights of the app. There the token proves the user if the app may not name users " +
			"itself; the caller sends the token as bk_token.",
		"在控制台中，以及用令牌且不经应用的调用中，用户使用自己的权限。应用代表用户的调用使用应用的权限；\n" +
			"如果应用不得自行指定用户，则由令牌证明用户身份，调用方以 bk_token 传递令牌。",
	},
	{
		"The roles are viewer (read), operator (read, operate) and maintainer (read, operate, setup). An auditor reads " +
			"everything and all audit records: 'auditor on *'. Other " +
			"rights are those of apps: 'drover app --help' explains how to write a right.",
		"角色有 viewer（read）、operator（read、operate）和 maintainer（read、operate、setup）。auditor 可查看全部内容和\n" +
			"全部审计记录：'auditor on *'。其他权限的写法与应用相同，参见 'drover app --help'。",
	},
}
