package client_test

import (
	"context"
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_CreateApp() {
	c, stop := connect()
	defer stop()

	a, err := c.CreateApp(context.Background(), v1.AppChange{
		Code: "shop", Note: new("web shop"),
		Grants: &[]v1.Grant{{Operations: []string{"restart"}, Namespaces: []string{"web"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Code, a.Secret)
	// Output: shop SECRET
}

func ExampleClient_Apps() {
	c, stop := connect()
	defer stop()

	for a, err := range c.Apps(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Code, a.Note, a.Limits.Rate)
	}
	// Output: shop web shop 10
}

func ExampleClient_App() {
	c, stop := connect()
	defer stop()

	a, err := c.App(context.Background(), "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Grants[0].Operations, a.Grants[0].Namespaces)
	// Output: [restart] [web]
}

func ExampleClient_ChangeApp() {
	c, stop := connect()
	defer stop()

	a, err := c.ChangeApp(context.Background(), "shop", v1.AppChange{Note: new("new shop")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Note)
	// Output: new shop
}

// Create a second secret. The first secret stays valid for an hour.
func ExampleClient_NewSecret() {
	c, stop := connect()
	defer stop()

	a, err := c.NewSecret(context.Background(), "shop", time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Secret)
	// Output: SECRET2
}

func ExampleClient_CreateUser() {
	c, stop := connect()
	defer stop()

	u, err := c.CreateUser(context.Background(), v1.UserChange{Name: "anna", Note: new("on call")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.Name, u.Note)
	// Output: anna on call
}

func ExampleClient_Users() {
	c, stop := connect()
	defer stop()

	for u, err := range c.Users(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(u.Name, u.Note)
	}
	// Output: anna on call
}

func ExampleClient_User() {
	c, stop := connect()
	defer stop()

	u, err := c.User(context.Background(), "anna")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.Name, u.Disabled)
	// Output: anna false
}

func ExampleClient_ChangeUser() {
	c, stop := connect()
	defer stop()

	u, err := c.ChangeUser(context.Background(), "anna", v1.UserChange{Disabled: new(true)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.Name, u.Disabled)
	// Output: anna true
}

func ExampleClient_CreateToken() {
	c, stop := connect()
	defer stop()

	t, err := c.CreateToken(context.Background(), "anna", "laptop", 24*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.ID, t.Token)
	// Output: t-1 TOKEN
}

func ExampleClient_SignIn() {
	c, stop := connect()
	defer stop()

	s, err := c.SignIn(context.Background(), "anna")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.User, s.URL)
	// Output: anna https://drover.example.com:7350/ui/login#drovertok_X
}

func ExampleClient_CreateDevice() {
	c, stop := connect()
	defer stop()

	d, err := c.CreateDevice(context.Background(), "anna@laptop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Code, d.Path)
	// Output: BCDF-GHJK /ui/device
}

func ExampleClient_DeviceState() {
	c, stop := connect()
	defer stop()

	s, err := c.DeviceState(context.Background(), "drovertok_X")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.State, s.User)
	// Output: signed-in anna
}

func ExampleClient_EndSignIn() {
	c, stop := connect()
	defer stop()

	fmt.Println(c.EndSignIn(context.Background()))
	// Output: <nil>
}

func ExampleClient_CheckRight() {
	c, stop := connect()
	defer stop()

	v, err := c.CheckRight(context.Background(), client.RightQuestion{
		User: "anna", Operation: "restart", Process: "web/nginx", Host: "web-1",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.User, v.Allowed, v.Grants[0].Operations, v.Grants[0].Namespaces)
	// Output: anna true [operator] [web]
}

func ExampleClient_Tokens() {
	c, stop := connect()
	defer stop()

	list, err := c.Tokens(context.Background(), "anna")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range list {
		fmt.Println(t.ID, t.Note, t.ExpiresAt)
	}
	// Output: t-1 laptop 2026-03-02 12:00:00 +0000 UTC
}

func ExampleClient_DeleteToken() {
	c, stop := connect()
	defer stop()

	if err := c.DeleteToken(context.Background(), "anna", "t-1"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("revoked")
	// Output: revoked
}

// List the last ten denials.
func ExampleClient_Audit() {
	c, stop := connect()
	defer stop()

	for row, err := range c.Audit(context.Background(), client.AuditFilter{Allowed: new(false), Limit: 10}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.App, row.User, row.Action, row.Target, row.Code)
	}
	// Output: shop anna tasks.create web/nginx 403
}

func ExampleClient_Server() {
	c, stop := connect()
	defer stop()

	s, err := c.Server(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Version, s.HostsOnline, "of", s.Hosts, s.Disk.Free)
	// Output: 1.2.3 2 of 3 1000
}
