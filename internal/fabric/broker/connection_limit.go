package broker

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPerUser is the largest number of connections of one user. An agent has one; the broker may also hold a few
	// lost connections for a moment.
	maxPerUser = 8
	// countInterval is the interval at which connections are counted. They are checked after a growth of listGrowth,
	// and occasionally.
	countInterval = time.Second
	listGrowth    = 4 * maxPerUser
	listInterval  = time.Minute
)

// limitConnections closes connections of users with too many, until the server ends: each takes memory, and the place
// of another client.
func limitConnections(srv *server.Server, log *slog.Logger) {
	ended := make(chan struct{})
	go func() {
		srv.WaitForShutdown()
		close(ended)
	}()
	look := time.NewTicker(countInterval)
	defer look.Stop()
	for looked, left := time.Now(), 0; ; {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		if n := srv.NumClients(); n < maxPerUser || n < left+listGrowth && time.Since(looked) < listInterval {
			continue
		}
		left = closeExcess(srv, log)
		looked = time.Now()
	}
}

// closeExcess closes the latest connections of users with too many, and returns the number of connections left.
func closeExcess(srv *server.Server, log *slog.Logger) (left int) {
	list, err := srv.Connz(&server.ConnzOptions{Username: true, Limit: srv.NumClients() + listGrowth})
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
		if len(conns) <= maxPerUser {
			continue
		}
		slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return cmp.Compare(a.Cid, b.Cid) })
		log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns),
			"most", maxPerUser)
		for _, conn := range conns[maxPerUser:] {
			// It fails only if the connection has ended meanwhile.
			_ = srv.DisconnectClientByID(conn.Cid)
		}
		left -= len(conns) - maxPerUser
	}
	return left
}
