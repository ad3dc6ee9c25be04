package client_test

import (
	"context"
	"fmt"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_RollOut() {
	c, stop := connect()
	defer stop()

	r, err := c.RollOut(context.Background(), v1.Request{
		Op: "restart", Targets: []v1.Target{{Namespace: "web", Name: "nginx"}},
		Rollout: &v1.RolloutPlan{Batch: v1.HostCount{Percent: 10}, Canary: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State, r.Counts.Hosts)
	// Output: ro-1 running 20
}

func ExampleClient_Rollout() {
	c, stop := connect()
	defer stop()

	r, err := c.Rollout(context.Background(), "ro-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.State, r.Reason)
	// Output: paused 1 of 20 hosts failed among the canaries
}

func ExampleClient_Rollouts() {
	c, stop := connect()
	defer stop()

	for r, err := range c.Rollouts(context.Background(), client.RolloutFilter{State: "paused"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.ID, r.Counts.Failed)
	}
	// Output: ro-1 1
}

func ExampleClient_PauseRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.PauseRollout(context.Background(), "ro-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 paused
}

func ExampleClient_ResumeRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.ResumeRollout(context.Background(), "ro-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 running
}

func ExampleClient_AbortRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.AbortRollout(context.Background(), "ro-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 aborted
}

func ExampleClient_RetryRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.RetryRollout(context.Background(), "ro-1", true)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 running
}

func ExampleClient_ApproveRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.ApproveRollout(context.Background(), "ro-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 running
}

func ExampleClient_UndoRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.UndoRollout(context.Background(), "ro-1", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 running
}

func ExampleClient_PaceRollout() {
	c, stop := connect()
	defer stop()

	r, err := c.PaceRollout(context.Background(), "ro-1", map[string]string{"batch": "5%"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.ID, r.State)
	// Output: ro-1 running
}
