package client_test

import (
	"context"
	"fmt"

	v1 "drover/api/v1"
)

func ExampleClient_CreateSchedule() {
	c, stop := connect()
	defer stop()

	s, err := c.CreateSchedule(context.Background(), v1.ScheduleRequest{
		Name: "nightly", Cron: "0 3 * * *", TimeZone: "UTC", Request: v1.Request{
			Op: "restart", Processes: []string{"web/*"}, Select: "role=web",
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Name, s.NextAt[0])
	// Output: nightly 2026-03-02 03:00:00 +0000 UTC
}

func ExampleClient_Schedules() {
	c, stop := connect()
	defer stop()

	list, err := c.Schedules(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list {
		fmt.Println(s.Name, s.Cron, s.Missed)
	}
	// Output: nightly 0 3 * * * 1
}

func ExampleClient_Schedule() {
	c, stop := connect()
	defer stop()

	s, err := c.Schedule(context.Background(), "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Runs[0].State, s.Runs[0].Message)
	// Output: missed no server ran
}

func ExampleClient_PauseSchedule() {
	c, stop := connect()
	defer stop()

	s, err := c.PauseSchedule(context.Background(), "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.State)
	// Output: paused
}

func ExampleClient_ResumeSchedule() {
	c, stop := connect()
	defer stop()

	s, err := c.ResumeSchedule(context.Background(), "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.State)
	// Output: active
}

func ExampleClient_RunSchedule() {
	c, stop := connect()
	defer stop()

	s, err := c.RunSchedule(context.Background(), "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Runs[0].State)
	// Output: missed
}

func ExampleClient_RemoveSchedule() {
	c, stop := connect()
	defer stop()

	if err := c.RemoveSchedule(context.Background(), "nightly"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("removed")
	// Output: removed
}
