package brokers

import (
	"slices"

	"drover/internal/fabric/broker"
	"drover/internal/server/keyring"
)

// signers returns the keys that issue the credentials of agents, proxies and servers.
func signers(keys *keyring.Ring) broker.Signers {
	of := func(kind keyring.Kind) broker.Issuers {
		issue, counting := keys.Signers(kind)
		own, _ := issue.PublicKey() // cannot fail: Signers has parsed the seed
		return broker.Issuers{
			Issue:  issue,
			Others: slices.DeleteFunc(counting, func(key string) bool { return key == own }),
		}
	}
	return broker.Signers{
		Agents: of(keyring.AgentSigner), Proxies: of(keyring.ProxySigner), Servers: of(keyring.ServerSigner),
	}
}
