package broker

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// mostOfUser is the largest number of connections of one user. An agent has one; the broker may also hold a few
	// lost connections for a moment.
	mostOfUser = 8
	// crowdLook is the interval at which connections are counted. They are checked after a growth of crowdGrowth, and
	// occasionally.
	crowdLook   = time.Second
	crowdGrowth = 4 * mostOfUser
	crowdEvery  = time.Minute
)

// thin closes connections of users with too many, until the server ends: each takes memory, and the place of another
// client.
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

// thinOnce closes the latest connections of users with too many, and returns the number of connections left.
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
		log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns),
			"most", mostOfUser)
		for _, conn := range conns[mostOfUser:] {
			// It fails only if the connection has ended meanwhile.
			_ = srv.DisconnectClientByID(conn.Cid)
		}
		left -= len(conns) - mostOfUser
	}
	return left
}
