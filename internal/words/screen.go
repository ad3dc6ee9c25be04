package words

// Screen holds the words of the terminal screen.
//
//nolint:gochecknoglobals // constant texts
var Screen = struct {
	Live, Lost, Asking, ReadOnly, Filter, Jump, Marked, Matching, Of, Wrong                        Text
	NoneChosen, NoSuchPlace, NotHere, Copied, CopiedCommand, Sent, Ended, Sending, Leave           Text
	And, TypeCount, LogOf, RunBefore, Following, LogEnd, BytesLost, Below, List, Find, NextHit     Text
	RunOne, LogClose, NoneMarked, TooManyLogs, AskRollout, RolloutHosts, Stepped, NotNow, OneState Text
	NoCause, Also, NotAProcess, OneProcess, UnknownFlag, NoValue, OpenQuote                        Text
	FlagNotHere, NoHit, Keys, Back, Help                                                           Text
	AsOf, NotATime, BadValue, NoRight, NewRight, Once, Batches, Other, CopyCommand                 Text
	Asked, AskCancel, WasCancelled, NotForTask, FailedAgain, ManyOps                               Text
}{
	Live: Text{"live {age}", "实时 {age}"},
	Lost: Text{"lost since {time}, shown as of then", "自 {time} 起失去连接，以下为当时的状态"}, Asking: Text{"asking…", "正在查询…"},
	ReadOnly: Text{"read-only", "只读"}, Filter: Text{"filter", "筛选"}, Jump: Text{"jump to", "跳转到"},
	Marked: Text{"{n} marked", "已选 {n}"}, Matching: Text{"processes: {n}", "{n} 个进程"},
	Of:    Text{"rows {from} to {to}", "第 {from} 至 {to} 行"},
	Wrong: Text{"only wrong ones", "仅显示异常"},

	NoneChosen: Text{"There is no process to operate on.", "没有可操作的进程。"},
	NoSuchPlace: Text{
		"{word}: expected ps, hosts, tasks, rollouts, events, why, admin, people, audit or NAMESPACE/NAME",
		"{word}：应为 ps、hosts、tasks、rollouts、events、why、admin、people、audit 或 命名空间/名称",
	},
	NotHere: Text{"This key is for processes.", "此按键仅用于进程。"}, Copied: Text{"copied: {text}", "已复制：{text}"},
	CopiedCommand: Text{"copied as command: {text}", "已复制为命令：{text}"},
	Sent:          Text{"{op}: task {task}, targets: {n}", "{op}：任务 {task}，{n} 个执行对象"},
	Ended:         Text{"{op}: task {task}: {ok} ok, {failed} failed", "{op}：任务 {task}：成功 {ok}，失败 {failed}"},
	Sending: Text{
		"An operation is on its way to the server. Ctrl-c again leaves at once.",
		"操作正在发往服务器。再按一次 Ctrl-c 立即离开。",
	},
	Leave: Text{"Ctrl-c leaves.", "按 Ctrl-c 离开。"},

	And:       Text{"and {n} more", "还有 {n} 个"},
	TypeCount: Text{"Type {n} to confirm:", "输入 {n} 以确认："},
	LogOf:     Text{"log {process} {host}", "日志 {process} {host}"},
	RunBefore: Text{"run {n}", "第 {n} 次运行"}, Following: Text{"following", "持续跟踪"}, LogEnd: Text{"end", "结束"},
	BytesLost: Text{"[... {n} bytes lost ...]", "[... 丢失 {n} 字节 ...]"},

	Below: Text{"{n} lines below ↓", "下方还有 {n} 行 ↓"}, List: Text{"list", "列表"}, Find: Text{"find", "查找"},
	NextHit: Text{"next", "下一处"}, RunOne: Text{"run before", "上一次运行"}, LogClose: Text{"close", "关闭"},
	NoneMarked:  Text{"No process is marked: space marks one.", "尚未选中进程：按空格选中。"},
	TooManyLogs: Text{"{n} logs fit side by side: mark fewer processes.", "最多同时显示 {n} 个日志：请减少选中的进程。"},
	AskRollout:  Text{"{op} rollout {rollout}?", "{op}分批发布 {rollout}？"},
	RolloutHosts: Text{
		"{done} of {hosts} hosts done, {failed} failed, {waiting} waiting",
		"{hosts} 台主机：已完成 {done}，失败 {failed}，等待 {waiting}",
	},
	Stepped:  Text{"{op}: rollout {rollout} is {state}", "{op}：分批发布 {rollout} {state}"},
	NotNow:   Text{"{op} does not apply: the rollout is {state}.", "当前状态为{state}，不能{op}。"},
	OneState: Text{"{word}: this list takes one state", "{word}：此列表只能筛选一个状态"},

	NoCause: Text{"Nothing is wrong here.", "没有异常。"}, Also: Text{"also", "另有"},
	NotAProcess: Text{"{word}: expected NAMESPACE/NAME, or a part of a name", "{word}：应为 命名空间/名称，或名称的一部分"},
	OneProcess:  Text{"{word}: expected one NAMESPACE/NAME; patterns may have *", "{word}：只能有一个 命名空间/名称，可使用 *"},
	UnknownFlag: Text{"{word}: no such flag here", "{word}：此处没有这个选项"},
	NoValue:     Text{"{word}: expected a value", "{word}：缺少值"}, OpenQuote: Text{"a quote is open", "引号未闭合"},
	FlagNotHere: Text{"{word} does not filter this list", "{word} 不能筛选此列表"},
	NoHit:       Text{"{text}: not found", "{text}：未找到"}, Keys: Text{"keys", "按键"}, Back: Text{"back", "返回"},
	Help: Text{helpEnglish, helpChinese},

	AsOf:        Text{"{stale}: {state}", "{stale}：{state}"},
	NotATime:    Text{"{word}: expected a time, or an age such as 16h", "{word}：应为时间，或 16h 这样的时长"},
	BadValue:    Text{"{flag} {value} does not fit", "{flag} {value} 不正确"},
	NoRight:     Text{"expected NAME RIGHT, such as: anna operator on shop*", "应为 用户名 权限，例如：anna operator on shop*"},
	NewRight:    Text{"grant", "授权"},
	Once:        Text{"shown once", "仅显示一次"},
	Batches:     Text{"in batches", "分批执行"},
	Other:       Text{"other button", "切换按钮"},
	CopyCommand: Text{"copy as command", "复制为命令"},
	Asked:       Text{"{what}: ", "{what}："},
	AskCancel:   Text{"Cancel what has not begun of task {task}?", "取消任务 {task} 中尚未开始的部分？"},
	WasCancelled: Text{
		"task {task}: {n} cancelled, {begun} had begun and go on", "任务 {task}：已取消 {n} 个，另有 {begun} 个已开始，将继续执行",
	},
	NotForTask:  Text{"{op} does not apply: the task is {state}.", "任务{state}，不能{op}。"},
	FailedAgain: Text{"failed ones again", "重试失败的部分"},
	ManyOps: Text{
		"This task has several operations: operate on its processes one by one.", "该任务包含多种操作：请逐个操作其中的进程。",
	},
}

const helpEnglish = `Move
  up down j k  a row             PgUp PgDn  a screen, then a page of 200 rows
  Home End     first, last row   enter      open
  q esc        back              [ ]        back and forth, with the filters
  :            jump to ps hosts tasks rollouts events why admin people audit,
               or to NAMESPACE/NAME
  /            filter; in a text: find, and n N go to the next and last hit
  Ctrl-z       only wrong ones, as drover why lists them, or failed results
  Ctrl-c       leave; tasks go on

A filter is written as for drover ps:
  shop/* --state given-up,flapping --hosts '0:10.2.*' -l role=web
  A word without / stands for *word* as the name of a process.
  In a list of hosts a word names a host. Events: --since 16h --until 8h

Look
  d  describe   w  why            y  spec            e  its events  t  tasks
  l  log below  f  follow it      p  the run before  l again closes the log
  m  the logs of all marked ones, at most 20
  tab  into the log: the keys of Move scroll it, / finds in it, n N as above
  c  copy the row (OSC 52, if the terminal allows it)
  C  copy the command that shows or does the same

Operate
  space  mark a row               *  mark all that match; * again marks none
  r restart  s stop  S start  o reload  R retry  K kill
  The focus begins on Cancel. Tab and enter confirm, or y up to 20 processes.
  Above 20, and for a kill, type the number.
  For several hosts, b in the dialog asks for batches: that is a rollout.
  With *, the server holds exactly the processes that the question names.
  On a rollout: p pause  r resume  a approve  R retry failed  K abort  u undo
  On a task: R does it again for the failed ones  K cancels what has not begun
  +  in hosts: a token for new hosts; in people: a right  i  a sign-in link`

const helpChinese = `移动
  ↑ ↓ j k       上下一行               PgUp PgDn     翻屏、翻页
  Home End      首行、末行             enter         打开
  q esc         返回                   [ ]           后退、前进，保留筛选条件
  :             跳转到 ps hosts tasks rollouts events why admin people audit，
                或 命名空间/名称
  /             筛选；在文本中为查找，n N 为下一处、上一处
  Ctrl-z        仅显示异常，与 drover why 一致；在任务中为仅显示失败
  Ctrl-c        离开；任务继续执行

筛选的写法与 drover ps 相同：
  shop/* --state given-up,flapping --hosts '0:10.2.*' -l role=web
  不含 / 的词表示进程名称 *词*；在主机列表中则表示主机。
  事件可按时间筛选：--since 16h --until 8h

查看
  d  详情       w  原因        y  进程配置      e  事件      t  任务
  l  下方日志   f  持续跟踪            p  上一次运行      再按 l 关闭日志
  m  并排显示所有选中进程的日志，最多 20 个
  tab  进入日志：用「移动」的按键滚动，/ 查找，n N 同上
  c  复制此行   C  复制列表对应的命令（OSC 52：需要终端允许）

操作
  空格  选中一行   *  选中符合条件的全部；再按 * 取消
  r 重启   s 停止   S 启动   o 重载   R 重试   K 强制停止
  焦点起初在「取消」：按 tab 再按 enter 确认，20 个进程以内也可按 y。
  超过 20 个以及强制停止需输入数量。
  涉及多台主机时，在确认框中按 b 可分批执行（分批发布）。
  用 * 选中时，由服务器保留确认框中列出的进程，操作只针对它们。
  在分批发布上：p 暂停   r 继续   a 批准   R 重试失败   K 终止   u 撤销
  在任务上：R 重试失败的部分   K 取消尚未开始的部分
  +  在主机列表中生成接入令牌，在用户列表中授权   i  生成登录链接`
