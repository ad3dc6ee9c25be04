package client_test

import (
	"context"
	"fmt"

	v1 "drover/api/v1"
)

func ExampleClient_AddPackage() {
	c, stop := connect()
	defer stop()

	p, err := c.AddPackage(context.Background(), "the signed text")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Version, p.Arch, "lacks", p.Missing)
	// Output: 1.4.0 amd64 lacks [0 1]
}

func ExampleClient_PutPiece() {
	c, stop := connect()
	defer stop()

	if err := c.PutPiece(context.Background(), "1.4.0", "amd64", 0, []byte{0, 1, 2}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stored")
	// Output: stored
}

func ExampleClient_Packages() {
	c, stop := connect()
	defer stop()

	for p, err := range c.Packages(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Version, p.Arch, p.Size)
	}
	// Output: 1.4.0 amd64 300000
}

func ExampleClient_RemovePackage() {
	c, stop := connect()
	defer stop()

	if err := c.RemovePackage(context.Background(), "1.4.0", "amd64"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("removed")
	// Output: removed
}

func ExampleClient_UpgradeAgents() {
	c, stop := connect()
	defer stop()

	batch, err := v1.ParseHostCount("10%")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.UpgradeAgents(context.Background(), v1.UpgradeRequest{
		Version: "1.4.0", Select: "role=web", Rollout: &v1.RolloutPlan{Batch: batch, Canary: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Op, r.State, r.Counts.Hosts)
	// Output: upgrade:1.4.0 running 20
}

func ExampleClient_PlanUpgrade() {
	c, stop := connect()
	defer stop()

	p, err := c.PlanUpgrade(context.Background(), v1.UpgradeRequest{Version: "1.4.0", Select: "role=web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Targets[0].Hosts, p.Rollout.Counts.Hosts)
	// Output: [web-1 web-2] 20
}
