package broker

import "fmt"

// Changes returns a number that grows whenever a subscription begins or ends, at this broker, at another broker of its
// cluster, or at a proxy. It costs some microseconds.
func (b *Broker) Changes() (uint64, error) {
	stats, err := b.srv.Subsz(nil)
	if err != nil {
		return 0, fmt.Errorf("cannot count subscriptions: %w", err)
	}
	return stats.NumInserts + stats.NumRemoves, nil
}

// Listeners returns a function that reports whether a client listens on a subject now, at this broker, at another
// broker of its cluster, or at a proxy. Each call of the function takes less than a microsecond.
func (b *Broker) Listeners() (listens func(subject string) bool, err error) {
	account, err := b.srv.LookupAccount(b.authority.accountID)
	if err != nil {
		return nil, fmt.Errorf("cannot find account: %w", err)
	}
	return account.SubscriptionInterest, nil
}
