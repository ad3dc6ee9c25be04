package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"drover/test/bench/lab"
)

// bareAgentStage is the first argument of the agent of the floor.
const bareAgentStage = "bare-agent"

// floorSubject is where all agents of the floor listen.
const floorSubject = "svc"

// runBareAgent is the agent of the floor: it runs the script at each request and answers with what that prints. Its
// arguments are the directory of the authority, the URL of the server, the script, its directory and the host.
func runBareAgent(args []string) error {
	if len(args) != 5 {
		return errors.New("five arguments are needed")
	}
	conn, err := lab.BareConn(args[0], args[1])
	if err != nil {
		return err
	}
	env := append(os.Environ(), "DROVER_HOST=0:"+args[4])
	_, err = conn.Subscribe(floorSubject, func(m *nats.Msg) {
		cmd := exec.Command(args[2], args[3], string(m.Data))
		cmd.Env = env
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = m.Respond(fmt.Appendf(nil, "%s: %s", args[4], out.Bytes())) // a lost answer is missed by who has asked
	})
	if err != nil {
		return err
	}
	return lab.Obey(context.Background(), map[string]func(context.Context) (string, error){
		"flush": func(context.Context) (string, error) { return "", conn.Flush() },
	})
}

// bareFleet is the floor: core NATS with TLS, an agent a host, and the connection of the caller.
type bareFleet struct {
	server *lab.Member
	agents lab.Crew
	conn   *nats.Conn
}

func (s *site) startBare() error {
	authority := filepath.Join(s.dir, "bare")
	var err error
	if s.bare.server, err = lab.Enlist(filepath.Join(s.dir, "bare.log"), lab.BareServerStage, authority); err != nil {
		return err
	}
	url, err := s.bare.server.Tell("listen")
	if err != nil {
		return err
	}
	for _, host := range s.hosts {
		a, err := lab.Enlist(filepath.Join(s.dir, "bare-agents.log"), bareAgentStage, authority, url, s.svc,
			s.state("floor"), host)
		if err != nil {
			return err
		}
		s.bare.agents = append(s.bare.agents, a)
	}
	if err := s.bare.agents.Tell("flush"); err != nil {
		return err
	}
	s.bare.conn, err = lab.BareConn(authority, url)
	return err
}

// ask sends one request to all agents of the floor and waits for every answer.
func (s *site) ask(ctx context.Context, what string) (answer, error) {
	inbox := s.bare.conn.NewInbox()
	sub, err := s.bare.conn.SubscribeSync(inbox)
	if err != nil {
		return answer{}, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection goes with it
	if err := s.bare.conn.PublishRequest(floorSubject, inbox, []byte(what)); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, mostOfCall)
	defer cancel()
	var out strings.Builder
	began := time.Now()
	for range s.hosts {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		out.Write(m.Data)
	}
	return answer{out: out.String(), took: time.Since(began)}, nil
}
