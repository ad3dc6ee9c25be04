package words

// Admin holds the words of the administration and of the page of a host.
//
//nolint:gochecknoglobals // constant texts
var Admin = struct {
	People, Apps, Tokens, Receivers, Keys, Proxies, Server                         Text
	Rights, Right, RightHint, Grant, Revoke, Disable, Enable, Everything, NoRights Text
	NewPerson, NewApp, NewToken, Create, Note, Administrator, Link, LinkFor        Text
	Kind, Ends, Secrets, Rotate, KeepHours, SecretOf, Once, Limits                 Text
	Role, Area, Uses, Used, Hours, LabelHint, TokenMade, Paste, AddHosts, Arrive   Text
	Queue, Delivered, LastFailure, Test, TestDone, TestFailed, Key, Stage, Until   Text
	Trusted, Agents, Servers, NotesOf, NoNotes, Disk, Certificates                 Text
	OnHost, All, SetLabels, LabelsHint, Remove, RemoveNote, TypeName, WrongName    Text
	Joined, Policy, Load, Kernel, CPUs, Business, Sessions, NoSession              Text
	Type, NotTyped, ChangedMeanwhile, AddProxy, RemoveProxy, RemoveProxyNote       Text
	AnnounceKey, AnnounceNote, UseKey, UseNote, KeepDays, Force, Drop, DropNote    Text
	EndsAfter, MostTargets, Proxy, NoPolicy, Limited                               Text
}{
	People: Text{"People", "用户"}, Apps: Text{"Apps", "应用"}, Tokens: Text{"Join tokens", "接入令牌"},
	Receivers: Text{"Receivers", "告警接收方"}, Keys: Text{"Keys", "密钥"}, Proxies: Text{"Proxies", "Proxy"},
	Server: Text{"Server", "服务器"},

	Rights: Text{"Rights", "权限"}, Right: Text{"Right", "权限"},
	RightHint: Text{
		"ROLE on NAMESPACES [at HOSTS], such as: operator on shop* at label:env=prod. " +
			"A viewer sees, an operator also starts and stops, a maintainer also applies. " +
			"An auditor sees everything and all audit records: auditor on *.",
		"格式：角色 on 命名空间 [at 主机]，例如：operator on shop* at label:env=prod。" +
			"viewer 可查看，operator 还可启停，maintainer 还可变更进程。" +
			"auditor 可查看全部内容和全部审计记录：auditor on *。",
	},
	EndsAfter:   Text{"Ends after hours (empty: never)", "有效期（小时，留空为长期有效）"},
	MostTargets: Text{"Most targets of one call (empty: any number)", "单次调用最多目标数（留空为不限）"},
	Grant:       Text{"Grant", "授权"}, Revoke: Text{"Revoke", "撤销"}, Disable: Text{"Disable", "停用"},
	Enable: Text{"Enable", "启用"}, Everything: Text{"everything", "全部权限"}, NoRights: Text{"none", "无"},

	NewPerson: Text{"New user", "新建用户"}, NewApp: Text{"New app", "新建应用"}, NewToken: Text{"New join token", "新建接入令牌"},
	Create: Text{"Create", "创建"}, Note: Text{"Note", "备注"}, Administrator: Text{"Administrator", "管理员"},
	Link:    Text{"Make a sign-in link", "生成登录链接"},
	LinkFor: Text{"Sign-in link for {user}, good once within 10 minutes", "{user} 的登录链接，10 分钟内有效，仅可使用一次"},

	Kind: Text{"Kind", "类型"}, Ends: Text{"Ends", "到期时间"}, Secrets: Text{"Secrets", "密钥"},
	Rotate:    Text{"New secret", "更换密钥"},
	KeepHours: Text{"The present secret stays valid for hours", "当前密钥继续有效（小时）"},
	SecretOf:  Text{"Secret of app {app}", "应用 {app} 的密钥"},
	Once:      Text{"This is shown only once. Copy it now.", "仅显示这一次，请立即复制。"},
	Limits:    Text{"Calls per second", "每秒调用上限"},

	Role: Text{"Role", "角色"}, Area: Text{"Area", "管控区域"}, Uses: Text{"Hosts", "可接入主机数"},
	Used: Text{"Used", "已接入"}, Hours: Text{"Valid for hours", "有效期（小时）"},
	LabelHint: Text{"such as env=prod,rack=4", "例如 env=prod,rack=4"},
	TokenMade: Text{"Join token; hosts that can join with it: {n}", "可接入 {n} 台主机的令牌"},
	Paste:     Text{"Run these lines on each host:", "在每台主机上运行："},
	Arrive:    Text{"Hosts that have joined are in the list of hosts", "接入的主机会出现在主机列表中"},
	AddHosts:  Text{"Add hosts", "接入主机"},

	Queue: Text{"Waiting", "待发送"}, Delivered: Text{"Last delivery", "最近送达"},
	LastFailure: Text{"Failure", "失败情况"}, Test: Text{"Send a test alarm", "发送测试告警"},
	TestDone:   Text{"Receiver {name} has taken the test alarm, in {n} s.", "接收方 {name} 已收到测试告警，耗时 {n} 秒。"},
	TestFailed: Text{"receiver {name} has not taken the test alarm: {error}", "接收方 {name} 未能接收测试告警：{error}"},
	Key:        Text{"Key", "密钥"}, Stage: Text{"Stage", "阶段"}, Until: Text{"Kept until", "保留至"},

	Trusted: Text{
		"{reached} of {online} online hosts trust these keys.", "{online} 台在线主机中，{reached} 台已信任这些密钥。",
	},
	Agents: Text{"Hosts", "主机数"}, Servers: Text{"Servers online", "在线服务器"}, NotesOf: Text{"To look at", "需要关注"},
	NoNotes: Text{"Nothing needs attention.", "没有需要关注的事项。"},
	Disk:    Text{"Free disk of the data directory", "数据目录磁盘剩余空间"}, Certificates: Text{"Certificates", "证书"},

	OnHost: Text{"Processes on this host", "该主机上的进程"}, All: Text{"With all {n} processes here:", "对该主机上全部 {n} 个进程执行："},
	SetLabels:  Text{"Change labels", "修改标签"},
	LabelsHint: Text{"KEY=VALUE sets a label, KEY- removes it", "KEY=VALUE 设置标签，KEY- 移除标签"},
	Remove:     Text{"Remove the host", "移除主机"},
	RemoveNote: Text{
		"The server disconnects the host and rejects it from then on. What runs on the host goes on running.",
		"服务器将断开该主机并拒绝其再次连接。主机上正在运行的进程不受影响，会继续运行。",
	},
	TypeName:  Text{"Type the name of the host to confirm:", "请输入主机名以确认："},
	WrongName: Text{"That is not the name of the host.", "与主机名不符。"},

	Proxy: Text{"Proxy", "Proxy"}, NoPolicy: Text{"none", "无"}, Limited: Text{"limited", "有限制"},
	Joined: Text{"Joined", "接入时间"}, Policy: Text{"Policy", "策略"}, Load: Text{"Load", "负载"},
	Kernel: Text{"Kernel", "内核"}, CPUs: Text{"CPUs", "CPU 核数"}, Business: Text{"Business", "业务"},
	Sessions:  Text{"Tokens and sessions", "令牌与会话"},
	NoSession: Text{"none", "无"},

	Type:     Text{"Type {text} to confirm:", "请输入 {text} 以确认："},
	NotTyped: Text{"The confirmation is missing: expected {text}", "缺少确认：请输入 {text}"},
	ChangedMeanwhile: Text{
		"Somebody has changed this since the page was shown. Look again.", "此内容在页面打开后已被他人修改，请查看后重试。",
	},
	AddProxy: Text{"Add a proxy", "接入 Proxy"}, RemoveProxy: Text{"Remove", "移除"},
	RemoveProxyNote: Text{
		"The agents of a removed proxy connect to other proxies of their area. Without one they are away: add another first.",
		"移除 Proxy 后，其 Agent 会连接同一管控区域的其他 Proxy；若没有其他 Proxy，这些主机将失联，请先接入新的 Proxy。",
	},
	AnnounceKey: Text{"Make and announce the next key", "生成并公布下一个密钥"},
	AnnounceNote: Text{
		"Online hosts know the next key within seconds. Nothing uses it before the second step.",
		"在线主机会在数秒内得知下一个密钥。在第二步之前不会启用它。",
	},
	UseKey: Text{"Use the next key", "启用下一个密钥"},
	UseNote: Text{
		"With several servers, copy the next key to the others first: drover server keys export, drover server keys import.",
		"有多台服务器时，请先将下一个密钥复制到其他服务器：drover server keys export、drover server keys import。",
	},
	KeepDays: Text{"Keep the present key for days", "当前密钥保留天数"},
	Force: Text{
		"Force: do not wait for {n} online hosts without this key. They may have to join again.",
		"强制：不等待 {n} 台尚无此密钥的在线主机，它们可能需要重新接入。",
	},
	Drop: Text{"Drop", "丢弃"},
	DropNote: Text{
		"If you drop a former key, a host that is away and knows no later key must join again.",
		"丢弃旧密钥后，失联且不知道新密钥的主机需要重新接入。",
	},
}

// Alarms holds the words of the receivers of alarms and of silences.
//
//nolint:gochecknoglobals // constant texts
var Alarms = struct {
	NewReceiver, Save, Secret, SecretHint, SecretOf, Delete, DeleteNote                            Text
	Namespaces, Hosts, Labels, Severities, Kinds, Local                                            Text
	MailFrom, MailTo, MailUser, MailSubject, Template                                              Text
	Silences, SilenceNote, NewSilence, Silence, Hours, FromHint, From, Until, Cron, Zone, Withheld Text
	WithEnded, WithoutEnded                                                                        Text
}{
	NewReceiver: Text{"New receiver", "新建接收方"}, Save: Text{"Save", "保存"}, Secret: Text{"Secret", "密钥"},
	SecretHint: Text{
		"A webhook without a secret here gets one from drover. For alertmanager it is the bearer token, for mail the password.",
		"Webhook 未填写密钥时由 drover 生成。alertmanager 填 bearer token，邮件填密码。",
	},
	SecretOf: Text{"Secret of receiver {name}", "接收方 {name} 的密钥"},
	Delete:   Text{"Delete the receiver", "删除接收方"},
	DeleteNote: Text{
		"The server never delivers the alarms that wait for this receiver.", "等待发送给该接收方的告警将不再发送。",
	},

	Namespaces: Text{"Namespaces (empty: all)", "命名空间（留空为全部）"},
	Hosts:      Text{"Hosts, an expression (empty: all)", "主机选择表达式（留空为全部）"},
	Labels:     Text{"Labels of processes (empty: all)", "进程标签选择表达式（留空为全部）"},
	Severities: Text{"Severities (empty: all)", "级别（留空为全部）"},
	Kinds:      Text{"Kinds of alarms (empty: all)", "告警类型（留空为全部）"},
	Local: Text{
		"Allow loopback, link-local and multicast addresses", "允许回环、链路本地和组播地址",
	},
	MailFrom: Text{"Mail: sender", "邮件：发件人"}, MailTo: Text{"Mail: recipients", "邮件：收件人"},
	MailUser:    Text{"Mail: user of the mail server", "邮件：邮件服务器用户名"},
	MailSubject: Text{"Mail: template of the subject", "邮件：标题模板"},
	Template: Text{
		"Template: the text of a mail, or the JSON of a webhook",
		"模板：邮件的正文，或 webhook 的 JSON",
	},

	Silences: Text{"Silences", "告警静默"},
	SilenceNote: Text{
		"A silence withholds alarms for some time. At its end the server delivers what still holds then.",
		"静默期间不发送告警。静默结束时，服务器会发送届时仍然成立的告警。",
	},
	NewSilence: Text{"New silence", "新建静默"}, Silence: Text{"Silence", "静默"},
	Hours:    Text{"Hours (of each window, if it repeats)", "时长（小时；周期静默时为每次时长）"},
	FromHint: Text{"Beginning (empty: now)", "开始时间（留空为现在）"},
	From:     Text{"Beginning", "开始时间"}, Until: Text{"Until", "结束时间"},
	Cron: Text{"Repeats at (crontab)", "重复规则（crontab）"}, Zone: Text{"Time zone of the rule", "规则的时区"},
	Withheld:     Text{"Withheld alarms", "已静默的告警数"},
	WithEnded:    Text{"Show those that have ended, too", "同时显示已结束的静默"},
	WithoutEnded: Text{"Hide those that have ended", "隐藏已结束的静默"},
}

// Audit holds the words of the audit log.
//
//nolint:gochecknoglobals // constant texts
var Audit = struct {
	Own, App, Action, Outcome, Allowed, Denied, Request, Since, Until, Via, Changes Text
}{
	Own: Text{
		"These are your own calls. Administrators and auditors see those of everybody.",
		"这里是你自己的调用记录。管理员和审计员可以查看所有人的记录。",
	},
	App: Text{"App", "应用"}, Action: Text{"Action", "动作"}, Outcome: Text{"Allowed", "是否允许"},
	Allowed: Text{"allowed", "允许"}, Denied: Text{"denied", "拒绝"}, Request: Text{"Request id", "请求 ID"},
	Since: Text{"Since", "开始时间"}, Until: Text{"Until", "结束时间"}, Via: Text{"Via", "途径"},
	Changes: Text{"Changes only", "仅显示变更"},
}

// OperatorNote is the note of the user that the operator of a server's machine becomes.
//
//nolint:gochecknoglobals // constant texts
var OperatorNote = Text{"operator of the server's machine", "服务器所在机器的操作员"}

// Note returns the note of a user in a language. People write notes themselves, except for OperatorNote.
func Note(note string, l Lang) string {
	if note == OperatorNote.en {
		return OperatorNote.In(l)
	}
	return note
}
