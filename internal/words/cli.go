package words

// Explained are the words of drover why and drover status.
//
//nolint:gochecknoglobals // constant texts
var Explained = struct {
	On, State, For, Also, Right, ManyHosts, ManyProcesses, More, Events, Remedy, Page Text
}{
	On:            Text{"{process} on {host}: {text}", "{host} 上的 {process}：{text}"},
	State:         Text{"{severity}{lasting}: {impact}", "{severity}{lasting}：{impact}"},
	For:           Text{", for {age}", "，已持续 {age}"},
	Also:          Text{"also{lasting}: {text} [{id}]", "另有{lasting}：{text} [{id}]"},
	Right:         Text{"as it should be", "符合预期"},
	ManyHosts:     Text{"{process} on {n} hosts: {title} [{id}]", "{n} 台主机上的 {process}：{title} [{id}]"},
	ManyProcesses: Text{"{n} processes on {host}: {title} [{id}]", "{host} 上的 {n} 个进程：{title} [{id}]"},
	More:          Text{"and {n} more", "还有 {n} 个"},
	Events:        Text{"Last events:", "最近事件："},
	Remedy:        Text{"What to do: {remedy}", "处理方法：{remedy}"},
	Page:          Text{"More: {command}", "详情：{command}"},
}
