package client_test

import (
	"context"
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

func ExampleClient_CreateJoinToken() {
	c, stop := connect()
	defer stop()

	t, err := c.CreateJoinToken(context.Background(), client.NewJoinToken{
		Labels: map[string]string{"rack": "a"}, Uses: 10, TTL: 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Token)
	// Output: dvt1.5f0c.SECRET.FINGERPRINT
}

func ExampleClient_JoinTokens() {
	c, stop := connect()
	defer stop()

	for t, err := range c.JoinTokens(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(t.ID, t.State, t.Used, t.Uses)
	}
	// Output: 5f0c open 3 10
}

func ExampleClient_JoinToken() {
	c, stop := connect()
	defer stop()

	t, err := c.JoinToken(context.Background(), "5f0c")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Labels, t.ExpiresAt)
	// Output: map[rack:a] 2026-03-02 12:00:00 +0000 UTC
}

func ExampleClient_RevokeJoinToken() {
	c, stop := connect()
	defer stop()

	if err := c.RevokeJoinToken(context.Background(), "5f0c"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("revoked")
	// Output: revoked
}

func ExampleClient_Proxies() {
	c, stop := connect()
	defer stop()

	for p, err := range c.Proxies(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Area, p.Name, p.Online, p.Agents)
	}
	// Output: 3 edge true 12
}

func ExampleClient_RemoveProxy() {
	c, stop := connect()
	defer stop()

	if err := c.RemoveProxy(context.Background(), "edge"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("removed")
	// Output: removed
}

func ExampleClient_Keys() {
	c, stop := connect()
	defer stop()

	k, err := c.Keys(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.Keys[0].Kind, k.Keys[0].Stage, k.Reached, k.Online)
	// Output: manifest present 3 3
}

// Announce the next key. A second call, when all online hosts trust the key, starts to use it.
func ExampleClient_RotateKeys() {
	c, stop := connect()
	defer stop()

	k, err := c.RotateKeys(context.Background(), "manifest", 24*time.Hour, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range k.Keys {
		fmt.Println(key.ID, key.Stage)
	}
	fmt.Printf("%d of %d online hosts trust the next key\n", k.Reached, k.Online)
	// Output:
	// KOLD present
	// KNEW next
	// 0 of 3 online hosts trust the next key
}

func ExampleClient_DropKey() {
	c, stop := connect()
	defer stop()

	if err := c.DropKey(context.Background(), "manifest", "KNEW"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("discarded")
	// Output: discarded
}

func ExampleClient_CreateReceiver() {
	c, stop := connect()
	defer stop()

	w, err := c.CreateReceiver(context.Background(), v1.ReceiverChange{
		Name: "ops", URL: new("https://ops.example/alarms"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Name, w.Secret)
	// Output: ops SECRET
}

func ExampleClient_Receivers() {
	c, stop := connect()
	defer stop()

	list, err := c.Receivers(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range list {
		fmt.Println(w.Name, w.URL, w.Delivery.Lag)
	}
	// Output: ops https://ops.example/alarms 2
}

func ExampleClient_Receiver() {
	c, stop := connect()
	defer stop()

	w, err := c.Receiver(context.Background(), "ops")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Delivery.Failures, w.Delivery.Error)
	// Output: 1 HTTP 503
}

func ExampleClient_ChangeReceiver() {
	c, stop := connect()
	defer stop()

	w, err := c.ChangeReceiver(context.Background(), "ops", v1.ReceiverChange{Namespaces: &[]string{"web"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Namespaces)
	// Output: [web]
}

func ExampleClient_RotateReceiver() {
	c, stop := connect()
	defer stop()

	w, err := c.RotateReceiver(context.Background(), "ops", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Secret)
	// Output: SECRET2
}

// A failed delivery is not an error of the call.
func ExampleClient_TestReceiver() {
	c, stop := connect()
	defer stop()

	t, err := c.TestReceiver(context.Background(), "ops")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Delivered, t.Error)
	// Output: false HTTP 503
}

func ExampleClient_DeleteReceiver() {
	c, stop := connect()
	defer stop()

	if err := c.DeleteReceiver(context.Background(), "ops"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("deleted")
	// Output: deleted
}

func ExampleClient_CreateSilence() {
	c, stop := connect()
	defer stop()

	s, err := c.CreateSilence(context.Background(), v1.SilenceRequest{
		Processes: []string{"web/*"}, Seconds: 7200, Message: "kernel",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.ID, s.State)
	// Output: s1 active
}

func ExampleClient_Silences() {
	c, stop := connect()
	defer stop()

	list, err := c.Silences(context.Background(), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list {
		fmt.Println(s.ID, s.Processes, s.Withheld)
	}
	// Output: s1 [web/*] 3
}

func ExampleClient_Silence() {
	c, stop := connect()
	defer stop()

	s, err := c.Silence(context.Background(), "s1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Message, s.Until)
	// Output: kernel 2026-03-01 14:00:00 +0000 UTC
}

func ExampleClient_RemoveSilence() {
	c, stop := connect()
	defer stop()

	s, err := c.RemoveSilence(context.Background(), "s1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.State)
	// Output: ended
}

func ExampleClient_Breakers() {
	c, stop := connect()
	defer stop()

	list, err := c.Breakers(context.Background(), false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range list {
		fmt.Println(b.Name, b.Failed, b.Hosts, b.Cause)
	}
	// Output: nginx 37 100 exit-status
}

func ExampleClient_ResetBreaker() {
	c, stop := connect()
	defer stop()

	b, err := c.ResetBreaker(context.Background(), "web", "nginx")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.ClosedBy)
	// Output: anna
}
