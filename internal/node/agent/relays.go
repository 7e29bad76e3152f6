// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
)

// addRelays runs a relay for each captured interface.
func (a *agent) addRelays() error {
	node, err := overlay.Open(a.StateDir, daemon.Patience)
	if err != nil {
		return err
	}
	a.relays = relay.New(a.StateDir, node, a.Relays, a.log.With("part", "relays"))
	return a.manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer node.Close()
		// Pods need the relays as long as there is no other agent, also while kubelet is still served.
		lasting, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		go func() {
			<-ctx.Done()
			<-a.left
			end()
		}()
		return a.relays.Run(lasting)
	}))
}
