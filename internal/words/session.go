package words

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
