package client_test

import (
	"context"
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_Processes() {
	c, stop := connect()
	defer stop()

	filter := client.ProcessFilter{Namespace: "web", ProcessChoice: client.ProcessChoice{States: []string{"given-up"}}}
	for p, err := range c.Processes(context.Background(), filter) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Host.ID, p.Name, p.State, p.Cause.Text)
	}
	// Output: web-1 nginx given-up it exited with status 1
}

func ExampleClient_Process() {
	c, stop := connect()
	defer stop()

	on, err := c.Process(context.Background(), "web", "nginx")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range on {
		fmt.Println(p.Host.ID, p.State, p.Spec.Start)
	}
	// Output: web-1 given-up ./nginx
}

func ExampleClient_ProcessesAt() {
	c, stop := connect()
	defer stop()

	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	then, _, err := c.ProcessesAt(context.Background(), client.ProcessFilter{Namespace: "web"}, noon)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range then {
		if p.Unknown != nil {
			fmt.Println(p.Host.ID, p.Name, "unknown since", p.Unknown.Since.Format("15:04"))
		} else {
			fmt.Println(p.Host.ID, p.Name, p.State)
		}
	}
	// Output:
	// web-1 nginx given-up
	// web-2 nginx unknown since 11:58
}

func ExampleClient_Changes() {
	c, stop := connect()
	defer stop()

	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	changes, err := c.Changes(context.Background(), client.ChangesFilter{
		From: noon, To: noon.Add(5 * time.Minute), Processes: []string{"web/*"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range changes.Groups {
		fmt.Println(g.Count, g.From, "→", g.To, g.Cause)
	}
	// Output: 1 running → given-up exit-status
}

func ExampleClient_CountProcesses() {
	c, stop := connect()
	defer stop()

	n, err := c.CountProcesses(context.Background(), client.ProcessFilter{Namespace: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d run, the hosts of %d are away\n", n.States["running"], n.Total, n.Stale)
	// Output: 7 of 10 run, the hosts of 2 are away
}

func ExampleClient_CountHosts() {
	c, stop := connect()
	defer stop()

	n, err := c.CountHosts(context.Background(), client.HostFilter{}, "os")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d hosts are online\n", n.Online, n.Hosts)
	for _, g := range n.Groups {
		fmt.Printf("%s: %d of %d\n", g.Value, g.Online, g.Hosts)
	}
	// Output:
	// 2 of 3 hosts are online
	// debian: 2 of 3
}

func ExampleClient_Overview() {
	c, stop := connect()
	defer stop()

	o, err := c.Overview(context.Background(), client.ProcessFilter{Namespace: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d processes are wrong, %d hosts are away\n", o.Wrong, o.Processes.Total, o.Hosts.Away)
	for _, cause := range o.Causes {
		fmt.Println(cause.Count, cause.ID, "on", cause.Hosts, "host:", cause.Processes[0].Name)
	}
	// Output:
	// 1 of 10 processes are wrong, 1 hosts are away
	// 1 exit-status on 1 host: nginx
}

func ExampleClient_ProcessPage() {
	c, stop := connect()
	defer stop()

	filter := client.ProcessFilter{Causes: []string{"exit-status"}, Search: "web/", Limit: 50}
	rows, next, total, err := c.ProcessPage(context.Background(), filter, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows[0].Name, rows[0].State, total, next == "")
	// Output: nginx given-up 1 true
}

func ExampleClient_GroupPage() {
	c, stop := connect()
	defer stop()

	filter := client.ProcessFilter{Sort: "-wrong", Limit: 2}
	groups, _, total, err := c.GroupPage(context.Background(), "process", filter, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range groups {
		fmt.Println(g.Key, g.Wrong, "of", g.Total)
	}
	fmt.Println(total, "groups")
	// Output:
	// web/nginx 1 of 1
	// web/php 0 of 9
	// 7 groups
}

// Choose processes by a filter, and see what an operation would be for. Then v1.Request{Op: "retry", Selection:
// s.ID} is for exactly these processes.
func ExampleClient_Select() {
	c, stop := connect()
	defer stop()

	filter := client.ProcessFilter{Namespace: "web", ProcessChoice: client.ProcessChoice{States: []string{"given-up"}}}
	s, err := c.Select(context.Background(), filter, v1.SelectionRequest{
		Op: "retry", Except: []v1.Target{{Namespace: "web", Name: "php"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Targets, "process on", s.Hosts, "host, not allowed:", s.DeniedCount)
	// Output: 1 process on 1 host, not allowed: 0
}

func ExampleClient_Selection() {
	c, stop := connect()
	defer stop()

	s, err := c.Selection(context.Background(), "sel-x")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Sample[0].Name, s.ExpiresAt.Format("15:04"))
	// Output: nginx 12:15
}

func ExampleClient_Why() {
	c, stop := connect()
	defer stop()

	w, err := c.Why(context.Background(), client.WhyFilter{Namespace: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range w.Findings {
		fmt.Println(f.Host.ID, f.Name, f.Severity, f.Cause.Text)
	}
	for _, cause := range w.Causes {
		fmt.Println(cause.Count, cause.ID, cause.Title)
	}
	// Output:
	// web-1 nginx critical it exited with status 1
	// 1 exit-status Ended with an error
}

func ExampleClient_Drift() {
	c, stop := connect()
	defer stop()

	r, err := c.Drift(context.Background(), client.DriftFilter{Namespace: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range r.Items {
		fmt.Println(d.Host, d.Name, d.Field, d.Want, d.Have, d.Mend)
	}
	// Output: web-1 nginx limits.open_files 512 100 drover restart web/nginx --hosts web-1
}

func ExampleClient_Hosts() {
	c, stop := connect()
	defer stop()

	for a, err := range c.Hosts(context.Background(), client.HostFilter{State: "online", Policy: "limited"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.ID, a.IP, a.Build)
	}
	// Output: web-1 10.0.0.1 1.2.3
}

func ExampleClient_LabelHosts() {
	c, stop := connect()
	defer stop()

	done, err := c.LabelHosts(context.Background(), v1.LabelRequest{
		Hosts: []string{"web-*"}, Set: map[string]string{"role": "web"}, Remove: []string{"zone"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Hosts)
	// Output: [web-1]
}

func ExampleClient_PlanLabels() {
	c, stop := connect()
	defer stop()

	plan, err := c.PlanLabels(context.Background(), v1.LabelRequest{
		Hosts: []string{"web-1"}, Set: map[string]string{"role": "db"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range plan.Reselected {
		fmt.Println(s.Select, s.Processes, s.Come, s.Cease)
	}
	// Output: role=web [shop/api] 0 1
}

func ExampleClient_RemoveHost() {
	c, stop := connect()
	defer stop()

	if err := c.RemoveHost(context.Background(), "web-1"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("removed")
	// Output: removed
}

func ExampleClient_Events() {
	c, stop := connect()
	defer stop()

	for e, err := range c.Events(context.Background(), client.EventFilter{Namespaces: []string{"web"}, Limit: 10}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Cursor, e.Name, e.Kind, e.Exit.Code)
	}
	// Output: 41 nginx exited 1
}

// Print the last event, and then each event as it arrives. This example leaves the loop after the first new event.
func ExampleClient_FollowEvents() {
	c, stop := connect()
	defer stop()

	for e, err := range c.FollowEvents(context.Background(), client.EventFilter{Kinds: []string{"exited"}, Limit: 1}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Cursor, e.Name, e.Kind)
		if e.Cursor == 42 {
			break
		}
	}
	// Output:
	// 41 nginx exited
	// 42 nginx exited
}

// Continue after the event that the program handled last. A program stores the cursor of each event that it handled.
func ExampleClient_EventsAfter() {
	c, stop := connect()
	defer stop()

	handled := int64(41)
	for e, err := range c.EventsAfter(context.Background(), client.EventFilter{}, handled) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Cursor, e.Name, e.Kind)
		if handled = e.Cursor; handled == 42 {
			break
		}
	}
	fmt.Println("next time after", handled)
	// Output:
	// 42 nginx exited
	// next time after 42
}

// Print the last lines that a process wrote.
func ExampleClient_Logs() {
	c, stop := connect()
	defer stop()

	f := client.LogFilter{Hosts: []string{"web-1"}, Tail: 2}
	for l, err := range c.Logs(context.Background(), "web", "nginx", f) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(l.Host, l.Stream, l.Text)
	}
	// Output:
	// web-1 stderr bind: address in use
	// web-1 stderr giving up
}

func ExampleClient_UsageHistory() {
	c, stop := connect()
	defer stop()

	history, err := c.UsageHistory(context.Background(), "web", "nginx", "web-1", "1h")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range history.Steps {
		fmt.Println(step.At.Format("15:04:05"), step.CPU, step.Memory>>20, step.Restarted)
	}
	// Output:
	// 11:59:00 0.5 100 false
	// 12:00:00 1.25 200 true
}
