package broker

import (
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Changes returns a number that grows whenever a subscription begins or ends, at this broker, at another broker of its
// cluster, or at a proxy. It costs some microseconds.
func (b *Broker) Changes() (uint64, error) {
	stats, err := b.srv.Subsz(nil)
	if err != nil {
		return 0, fmt.Errorf("cannot count subscriptions: %w", err)
	}
	return stats.NumInserts + stats.NumRemoves, nil
}

// doubtTime is how long after a subscription with wildcards Listeners lists all subscriptions: whoever has made it may
// end and make it again between two looks.
const doubtTime = time.Minute

// Listeners returns a function that reports whether a client listens on a subject now, at this broker, at another
// broker of its cluster, or at a proxy. It is for one goroutine. Each call takes about a microsecond.
//
// Subscriptions with wildcards do not count. The broker takes them from a proxy for subjects of other areas, too, and
// withholds only the messages. nobody is a subject like the other one, on which nobody can listen: what is heard there
// is such a subscription, and then the first call lists all subscriptions.
func (b *Broker) Listeners() (listens func(subject, nobody string) bool, err error) {
	account, err := b.srv.LookupAccount(b.authority.account)
	if err != nil {
		return nil, fmt.Errorf("cannot find account: %w", err)
	}
	var listed map[string]bool
	if time.Since(b.doubted) < doubtTime {
		if listed, err = b.subjects(); err != nil {
			return nil, err
		}
	}
	return func(subject, nobody string) bool {
		if listed == nil && account.SubscriptionInterest(nobody) {
			b.doubt()
			if listed, err = b.subjects(); err != nil {
				b.log.Error("cannot find out which agents are connected", "error", err)
			}
		}
		return account.SubscriptionInterest(subject) && (listed == nil || listed[subject])
	}, nil
}

// doubt notes a subscription with wildcards.
func (b *Broker) doubt() {
	if time.Since(b.doubted) >= doubtTime {
		b.log.Warn("somebody listens to the subjects of all agents of an area: a server does not, nor does a proxy")
	}
	b.doubted = time.Now()
}

// subjects returns the subjects of all subscriptions.
func (b *Broker) subjects() (map[string]bool, error) {
	own, err := b.srv.Subsz(&server.SubszOptions{
		Subscriptions: true, Account: b.authority.account, Limit: math.MaxInt,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list subscriptions: %w", err)
	}
	others, err := b.srv.Routez(&server.RoutezOptions{Subscriptions: true})
	if err != nil {
		return nil, fmt.Errorf("cannot list subscriptions of other brokers: %w", err)
	}
	all := make(map[string]bool, len(own.Subs))
	for i := range own.Subs {
		all[own.Subs[i].Subject] = true
	}
	for _, route := range others.Routes {
		for _, subject := range route.Subs {
			all[subject] = true
		}
	}
	return all, nil
}
