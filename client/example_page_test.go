package client_test

import (
	"context"
	"fmt"

	"drover/client"
)

func ExampleClient_Address() {
	c, err := client.New(client.Config{URL: "https://drover:7350", AppCode: "app", AppSecret: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Address())
	// Output: drover:7350
}

func ExampleClient_Caller() {
	c, err := client.New(client.Config{URL: "https://drover:7350", AppCode: "app", AppSecret: "secret", User: "anna"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Caller())
	// Output: anna
}

func ExampleClient_HostPage() {
	c, stop := connect()
	defer stop()

	page, err := c.HostPage(context.Background(), client.HostFilter{State: "online", Policy: "limited", Limit: 1000}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range page.Items {
		fmt.Println(item.ID, item.IP, item.Build)
	}
	// Output: web-1 10.0.0.1 1.2.3
}

func ExampleClient_TaskPage() {
	c, stop := connect()
	defer stop()

	page, err := c.TaskPage(context.Background(), client.TaskFilter{State: "running", Limit: 1000}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range page.Items {
		fmt.Println(item.ID, item.Op, item.Subject)
	}
	// Output: op-1 restart web/nginx
}

func ExampleClient_RolloutPage() {
	c, stop := connect()
	defer stop()

	page, err := c.RolloutPage(context.Background(), client.RolloutFilter{State: "paused", Limit: 1000}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range page.Items {
		fmt.Println(item.ID, item.Counts.Failed)
	}
	// Output: ro-1 1
}

func ExampleClient_EventPage() {
	c, stop := connect()
	defer stop()

	page, err := c.EventPage(context.Background(), client.EventFilter{Namespaces: []string{"web"}, Limit: 10}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range page.Items {
		fmt.Println(item.Cursor, item.Name, item.Kind)
	}
	// Output: 41 nginx exited
}

func ExampleClient_ResultPage() {
	c, stop := connect()
	defer stop()

	page, err := c.ResultPage(context.Background(), "op-1", client.ResultFilter{Outcome: "failed", Limit: 1000}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range page.Items {
		fmt.Println(item.Host, item.Outcome)
	}
	// Output: web-1 failed
}
