package client_test

import (
	"context"
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_File() {
	c, stop := connect()
	defer stop()

	f, _, err := c.File(context.Background(), "web")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Processes["nginx"].Start, f.Processes["nginx"].Hosts.Names)
	// Output: ./nginx [web-1]
}

func ExampleClient_FileAt() {
	c, stop := connect()
	defer stop()

	f, err := c.FileAt(context.Background(), "web", 15)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Revision, f.Processes["nginx"].Hosts.Names)
	// Output: 15 [web-1]
}

func ExampleClient_Revisions() {
	c, stop := connect()
	defer stop()

	for r, err := range c.Revisions(context.Background(), "web", 1) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Number, r.User, r.Through, r.Message, r.Changes[0].Process, r.Changes[0].Fields[0].Path)
	}
	// Output: 16 anna apply slower nginx restart.delay
}

func ExampleClient_Compare() {
	c, stop := connect()
	defer stop()

	p, err := c.Compare(context.Background(), "web", 15, 16)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range p.Changes {
		fmt.Println(change.Action, change.Process, change.Fields[0].Path, change.Fields[0].To)
	}
	// Output: change nginx restart.delay 5s
}

// nginxFile is a process file.
func nginxFile() v1.File {
	delay := v1.Duration(5 * time.Second)
	return v1.File{Namespace: "web", Processes: map[string]v1.Spec{"nginx": {
		Hosts: v1.Hosts{Names: []string{"web-1"}}, Start: "./nginx", PIDFile: "/run/nginx.pid", Restart: &v1.Restart{Delay: &delay},
	}}}
}

func ExampleClient_Plan() {
	c, stop := connect()
	defer stop()

	p, _, err := c.Plan(context.Background(), nginxFile(), client.ApplyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range p.Changes {
		fmt.Println(change.Action, change.Process, change.Hosts, change.Fields[0].Path)
	}
	// Output: change nginx [web-1] restart.delay
}

// Apply the plan that was made for a tag, unless somebody else was first.
func ExampleClient_Apply() {
	c, stop := connect()
	defer stop()

	_, tag, err := c.Plan(context.Background(), nginxFile(), client.ApplyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := c.Apply(context.Background(), nginxFile(), client.ApplyOptions{Prune: client.PruneOwn, Tag: tag})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Operation.ID, p.Operation.State)
	// Output: op-1 running
}
