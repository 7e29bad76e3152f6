// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"maps"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// withCards returns the machines that were given cards of the node.
func withCards(bus *passthrough.Bus) (all []Machine) {
	claims := bus.Claims()
	for _, address := range slices.Sorted(maps.Keys(claims)) {
		owner, ok := attachment.CardOwner(claims[address])
		if !ok {
			continue
		}
		machine := Machine{Identity: owner.Identity, Interface: owner.Interface, Device: device.VFIO, Connection: "network card " + address}
		switch card, err := bus.Read(address); {
		case err != nil:
			machine.lacks(recreate, "%v", err)
		case card.Driver != passthrough.VFIO:
			machine.lacks(recreate, "card %s has the driver %q, not %s, so that no machine can have it", address, card.Driver, passthrough.VFIO)
		}
		all = append(all, machine)
	}
	return all
}
