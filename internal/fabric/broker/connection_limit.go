package broker

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPerUser is the largest number of connections of one user. An agent has one; the broker may also hold a few
	// lost connections for a moment.
	maxPerUser = 8
	// countInterval is the interval at which connections are counted. They are checked after a growth of listGrowth,
	// soon after some were closed, because more may have been on their way, and occasionally.
	countInterval = time.Second
	listGrowth    = 4 * maxPerUser
	listAgain     = 5 * time.Second
	listInterval  = time.Minute
)

// connectionLimit closes connections of users with too many. Each connection takes memory, and the place of another
// client.
type connectionLimit struct {
	srv *server.Server
	log *slog.Logger
	// users are the users of the open connections, by connection. The server's own list of users verifies the token of
	// every connection again, which takes a processor while a large fleet connects.
	users map[uint64]string
}

// limitConnections closes connections of users with too many, until the server ends.
func limitConnections(srv *server.Server, log *slog.Logger) {
	ended := make(chan struct{})
	go func() {
		srv.WaitForShutdown()
		close(ended)
	}()
	l := &connectionLimit{srv: srv, log: log}
	look := time.NewTicker(countInterval)
	defer look.Stop()
	for looked, wait, left := time.Now(), listInterval, 0; ; {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		if n := srv.NumClients(); n < maxPerUser || n < left+listGrowth && time.Since(looked) < wait {
			continue
		}
		var closed bool
		left, closed = l.closeExcess()
		if looked, wait = time.Now(), listInterval; closed {
			wait = listAgain
		}
	}
}

// closeExcess closes the latest connections of users with too many. It returns the number of connections left, and
// whether it closed any.
func (l *connectionLimit) closeExcess() (left int, closed bool) {
	list, err := l.srv.Connz(&server.ConnzOptions{Sort: server.ByCid, Limit: l.srv.NumClients() + listGrowth})
	if err != nil { // only invalid options are an error
		l.log.Error("cannot list connections", "error", err)
		return 0, false
	}
	known := l.users
	l.users = make(map[uint64]string, len(list.Conns))
	byUser := map[string][]uint64{}
	for _, conn := range list.Conns {
		user, is := known[conn.Cid]
		if !is {
			user = userOf(l.srv, conn.Cid)
		}
		if user != "" {
			l.users[conn.Cid] = user
			byUser[user] = append(byUser[user], conn.Cid)
		}
	}
	left = len(list.Conns)
	for user, conns := range byUser {
		if len(conns) <= maxPerUser {
			continue
		}
		l.log.Warn("closed connections: one user has too many", "user", user, "connections", len(conns),
			"most", maxPerUser)
		for _, conn := range conns[maxPerUser:] {
			_ = l.srv.DisconnectClientByID(conn) // this fails only if the connection has ended meanwhile
		}
		left -= len(conns) - maxPerUser
		closed = true
	}
	return left, closed
}

// userOf returns the user of a connection, or "" before the server has accepted its token, and with it its account.
func userOf(srv *server.Server, connection uint64) string {
	client := srv.GetClient(connection)
	account := client.Account()
	if account == nil || account.GetName() == server.DEFAULT_GLOBAL_ACCOUNT {
		return ""
	}
	parts := strings.Split(client.GetOpts().JWT, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return "" // not reached: the server has accepted the token
	}
	return claims.Subject
}
