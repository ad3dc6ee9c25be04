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
	// soon after some were closed, because more may have been on their way, and occasionally if there are new ones.
	countInterval = time.Second
	listGrowth    = 4 * maxPerUser
	listAgain     = 5 * time.Second
	listInterval  = time.Minute
	// listRest bounds the cost of the checks: the next check waits this many times as long as the last one took. A
	// check verifies the token of every connection again, some 0.1 ms each. While a large fleet connects, checks each
	// second would take a processor.
	listRest = 10
)

// limitConnections closes connections of users with too many, until the server ends. Each connection takes memory, and
// the place of another client.
func limitConnections(srv *server.Server, log *slog.Logger) {
	ended := make(chan struct{})
	go func() {
		srv.WaitForShutdown()
		close(ended)
	}()
	look := time.NewTicker(countInterval)
	defer look.Stop()
	var due time.Time // no check before
	var checked census
	for looked, wait := time.Now(), listInterval; ; {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		began := time.Now()
		n := srv.NumClients()
		if began.Before(due) || n < maxPerUser || n < checked.left+listGrowth && began.Sub(looked) < wait {
			continue
		}
		if made := connectionsMade(srv); checked.complete && made == checked.made {
			looked = began // all connections are those of the last check, or fewer
			continue
		}
		checked = closeExcess(srv, log, checked.made)
		if looked, wait = time.Now(), listInterval; checked.closed {
			wait = listAgain
		}
		due = looked.Add(listRest * looked.Sub(began))
	}
}

// connectionsMade returns how many connections there have been since the start of the server. It costs some 0.1 ms.
func connectionsMade(srv *server.Server) uint64 {
	status, err := srv.Varz(nil)
	if err != nil { // there is no such case
		return 0
	}
	return status.TotalConnections
}

// census is the result of a check of all connections.
type census struct {
	// made is the number of connections since the start of the server, and left the number of present ones.
	made uint64
	left int
	// closed is set if the check has closed connections. complete is set if it has closed none, each had a user, and
	// there was no new one since the check before: the server counts a new one a little before it lists it.
	closed, complete bool
}

// closeExcess closes the latest connections of users with too many. before is the number of connections that the check
// before found to have been made.
func closeExcess(srv *server.Server, log *slog.Logger, before uint64) census {
	found := census{made: connectionsMade(srv)} // before the list: what comes meanwhile is checked later
	list, err := srv.Connz(&server.ConnzOptions{Username: true, Limit: srv.NumClients() + listGrowth})
	if err != nil { // only invalid options are an error
		log.Error("cannot list connections", "error", err)
		return census{}
	}
	byUser := map[string][]*server.ConnInfo{}
	found.complete = found.made == before && len(list.Conns) == list.Total
	for _, conn := range list.Conns {
		if conn.AuthorizedUser == "" {
			found.complete = false // its connect is under way
			continue
		}
		byUser[conn.AuthorizedUser] = append(byUser[conn.AuthorizedUser], conn)
	}
	found.left = len(list.Conns)
	for user, conns := range byUser {
		if len(conns) <= maxPerUser {
			continue
		}
		slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return cmp.Compare(a.Cid, b.Cid) })
		log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns),
			"most", maxPerUser)
		for _, conn := range conns[maxPerUser:] {
			// This fails only if the connection has ended meanwhile.
			_ = srv.DisconnectClientByID(conn.Cid)
		}
		found.left -= len(conns) - maxPerUser
		found.closed, found.complete = true, false
	}
	return found
}
