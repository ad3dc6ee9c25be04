// Command attacker does what somebody does who wants a drover to fall: it holds the keys of agents, has an app with
// next to no rights, is signed in to the console without any, or is a stranger. The variable PLAN says what it is to be. It prepares itself, says "ready", and
// attacks until it is ended. Only tests use it.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// plan is whom to attack, and as whom.
type plan struct {
	// As is "agents", "app", "person", "strangers" or "idle", who attacks nobody and takes as much of the processors.
	As string
	// URL is the server's API, Fabric the address of its fabric.
	URL, Fabric string
	// Seed repeats what is chosen at random.
	Seed uint64
	// Token lets agents join, which have their keys in Dir.
	Token, Dir string
	// Many is how many they are.
	Many int
	// App and Secret are those of an app.
	App, Secret string
	// Link signs a person in to the console.
	Link string
	// Host is a host that the app may ask about; Task is an operation of somebody else.
	Host, Task string
}

// tally counts what was done, by its name.
type tally struct {
	mu   sync.Mutex
	done map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[what]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var words []string
	for _, what := range slices.Sorted(maps.Keys(t.done)) {
		words = append(words, fmt.Sprintf("%s %d", what, t.done[what]))
	}
	return strings.Join(words, ", ")
}

// careless is how an attacker looks at a server's certificate.
//
//nolint:gosec // whom it attacks is not what it cares for
func careless() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	var p plan
	if err := json.Unmarshal([]byte(os.Getenv("PLAN")), &p); err != nil {
		return err
	}
	done := &tally{done: map[string]int{}}
	attack := map[string]func(context.Context, plan, *tally) (func(), error){
		"agents": agents, "app": app, "person": person, "strangers": strangers, "idle": idle,
	}[p.As]
	if attack == nil {
		return fmt.Errorf("nobody is %q", p.As)
	}
	begin, err := attack(ctx, p, done)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	begin()
	<-ctx.Done()
	fmt.Println("done:", done)
	return nil
}

// idle takes whatever time of the processors nobody else wants.
func idle(ctx context.Context, p plan, _ *tally) (begin func(), err error) {
	return func() {
		for range p.Many {
			go func() {
				for ctx.Err() == nil { //nolint:revive // this is all it does
				}
			}()
		}
	}, nil
}
