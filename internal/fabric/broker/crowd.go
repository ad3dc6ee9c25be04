package broker

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// mostOfUser is how many connections one user may have. An agent has one, and for moments a few that it has lost and the broker has not.
	mostOfUser = 8
	// crowdLook is how often connections are counted; they are looked at where there are crowdGrowth more than the last time, and now and
	// then.
	crowdLook   = time.Second
	crowdGrowth = 4 * mostOfUser
	crowdEvery  = time.Minute
)

// thin ends connections of users who have too many, until the server ends: each takes memory, and a place that others need.
func thin(srv *server.Server, log *slog.Logger) {
	ended := make(chan struct{})
	go func() {
		srv.WaitForShutdown()
		close(ended)
	}()
	look := time.NewTicker(crowdLook)
	defer look.Stop()
	for looked, left := time.Now(), 0; ; {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		if n := srv.NumClients(); n < mostOfUser || n < left+crowdGrowth && time.Since(looked) < crowdEvery {
			continue
		}
		left = thinOnce(srv, log)
		looked = time.Now()
	}
}

// thinOnce ends the latest connections of users who have too many, and returns how many there are left.
func thinOnce(srv *server.Server, log *slog.Logger) (left int) {
	list, err := srv.Connz(&server.ConnzOptions{Username: true, Limit: srv.NumClients() + crowdGrowth})
	if err != nil { // only of options
		log.Error("cannot list connections", "error", err)
		return 0
	}
	byUser := map[string][]*server.ConnInfo{}
	for _, conn := range list.Conns {
		if conn.AuthorizedUser != "" {
			byUser[conn.AuthorizedUser] = append(byUser[conn.AuthorizedUser], conn)
		}
	}
	left = len(list.Conns)
	for user, conns := range byUser {
		if len(conns) <= mostOfUser {
			continue
		}
		slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return cmp.Compare(a.Cid, b.Cid) })
		log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns), "most", mostOfUser)
		for _, conn := range conns[mostOfUser:] {
			// It fails only where the connection has ended meanwhile.
			_ = srv.DisconnectClientByID(conn.Cid)
		}
		left -= len(conns) - mostOfUser
	}
	return left
}
