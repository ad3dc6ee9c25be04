package words

// Apply holds the words of the page that applies a process file.
//
//nolint:gochecknoglobals // constant texts
var Apply = struct {
	Title, Load, Text, File, Plan, Again, Confirm, Edit, Reason           Text
	NoRestart, Prune, PruneNote, NoneStored, OneNamespace, Faults, Line   Text
	Steps, Restarts, NoSteps, TypeSteps, WrongSteps, Fields, Newer, Since Text
	Batches, Restored, Discard                                            Text
}{
	Title: Text{"Apply", "变更"}, Load: Text{"Load what is stored", "载入现有配置"},
	Text: Text{"Process file", "进程文件"}, File: Text{"or choose a file, or drop it on the text", "或选择文件，也可将文件拖到文本框中"},
	Plan: Text{"Show the plan", "查看变更计划"}, Again: Text{"Plan again", "重新生成变更计划"},
	Confirm: Text{"Apply", "执行变更"}, Edit: Text{"Edit", "修改"}, Reason: Text{"Reason", "变更原因"},

	NoRestart: Text{"Do not restart: changes wait for the next start", "不重启进程，变更在下次启动时生效"},
	Prune:     Text{"Remove what the file lacks", "移除文件中没有的进程"},
	PruneNote: Text{
		"A running process is stopped first. Apply again to remove it.",
		"运行中的进程会先停止；再执行一次变更后才会移除。",
	},
	NoneStored:   Text{"No host knows a process of namespace {ns} yet.", "还没有主机上有命名空间 {ns} 的进程。"},
	OneNamespace: Text{"The file has several namespaces: apply each by itself.", "文件中有多个命名空间，请分别执行。"},
	Faults:       Text{"Faults in the file: {n}. Nothing is done.", "文件中有 {n} 处错误，未做任何变更。"},
	Line:         Text{"Line", "行号"},

	Steps:      Text{"Changes: {n}, hosts: {hosts}", "{hosts} 台主机上有 {n} 项变更"},
	Restarts:   Text{"Restarts: {n}", "其中 {n} 项会重启进程。"},
	NoSteps:    Text{"Nothing to do: the hosts are as the file says.", "无需变更：主机上的进程已与文件一致。"},
	TypeSteps:  Text{"Type the number of changes to confirm:", "请输入变更项数以确认："},
	WrongSteps: Text{"That is not the number of changes.", "与变更项数不符。"},
	Fields:     Text{"Fields", "字段"},
	Newer: Text{
		"{user} was first, with revision {n}. Your text is as you left it. Look at the difference, and plan again.",
		"{user} 已先行变更（修订版本 {n}）。你的文本未改动，请查看差异后重新生成变更计划。",
	},
	Since:   Text{"What has changed since", "期间的变更"},
	Batches: Text{"It goes through the hosts in batches, as a rollout.", "将作为分批发布逐批执行。"},

	Restored: Text{"Your unsaved text is back.", "已恢复未提交的文本。"},
	Discard:  Text{"Discard it", "丢弃"},
}
