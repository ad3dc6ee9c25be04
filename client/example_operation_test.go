package client_test

import (
	"context"
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_Submit() {
	c, stop := connect()
	defer stop()

	o, err := c.Submit(context.Background(), v1.Request{
		Op: "restart", Targets: []v1.Target{{Namespace: "web", Name: "nginx"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.ID, o.State, o.Counts.Pending)
	// Output: op-1 running 2
}

func ExampleClient_PlanOperation() {
	c, stop := connect()
	defer stop()

	p, err := c.PlanOperation(context.Background(), v1.Request{
		Op: "restart", Targets: []v1.Target{{Namespace: "web", Name: "nginx"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Targets[0].Hosts, p.Reason == "")
	// Output: [web-1 web-2] true
}

// Wait up to 30 seconds for the end of an operation.
func ExampleClient_Task() {
	c, stop := connect()
	defer stop()

	o, err := c.Task(context.Background(), "op-1", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.Done(), o.Counts.OK, o.Counts.Failed)
	// Output: true 1 1
}

func ExampleClient_Cancel() {
	c, stop := connect()
	defer stop()

	answer, err := c.Cancel(context.Background(), "op-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Cancelled, answer.Asked, answer.Begun, answer.Operation.State)
	// Output: 1 1 0 running
}

func ExampleClient_Tasks() {
	c, stop := connect()
	defer stop()

	for o, err := range c.Tasks(context.Background(), client.TaskFilter{State: "running"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(o.ID, o.Op, o.Subject, o.User)
	}
	// Output: op-1 restart web/nginx anna
}

func ExampleClient_Results() {
	c, stop := connect()
	defer stop()

	for r, err := range c.Results(context.Background(), "op-1", client.ResultFilter{Outcome: "failed"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Host, r.Outcome, r.Message)
	}
	// Output: web-1 failed it exited with status 1
}
