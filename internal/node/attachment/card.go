// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// A pod whose device is of VFIO has a network card of the node instead of an interface: the card is not on the node's bridge and not
// known to ktsnd, and the virtual machine's frames are on the wire when the machine sends them.

// takenCard is a card that was taken from the node's kernel.
type takenCard struct {
	address, hardwareAddress string
	mtu                      int
}

// owner returns the name under which package passthrough knows the attachment as the owner of a card.
func (r *Record) owner() string {
	return strings.Join([]string{r.Network, r.ContainerID, r.Interface, r.Identity}, separator)
}

// CardOwner parses an owner that package passthrough returned.
func CardOwner(owner string) (overlay.Attachment, bool) {
	parts := strings.Split(owner, separator)
	if len(parts) != 4 {
		return overlay.Attachment{}, false
	}
	return overlay.Attachment{Network: parts[0], ContainerID: parts[1], Interface: parts[2], Identity: parts[3]}, true
}

// attachCard gives the pod's machine a card, with the addresses of the result.
func (a *adding) attachCard(ctx context.Context, ipam *current.Result) (*current.Result, error) {
	taken, err := a.takeCard(ctx)
	if err != nil {
		return nil, err
	}
	a.card = &kata.Device{
		Name: a.Interface, Address: taken.hardwareAddress, Back: kata.Back{Type: kata.VFIO, Card: taken.address}, Network: networkOf(ipam, taken.mtu),
	}
	if err := a.attachToKata(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the runtime has stopped waiting: nobody has the result
		return nil, err
	}
	return a.cardResult(ipam, taken), nil
}

// nodeBus returns the bus of cards; tests replace it.
var nodeBus = passthrough.NewBus

// takeCard takes the first of the network's cards that is available. Its error has a reason for each card. After a card
// that could not be given back it tries no other one, since DEL knows of one only.
func (a *adding) takeCard(ctx context.Context) (*takenCard, error) {
	bus := nodeBus()
	a.undo = append(a.undo, func() error { return a.giveBackCard() })
	var reasons []string
	for _, address := range a.Cards {
		taken, err := a.tryCard(ctx, bus, address)
		if err == nil {
			return taken, nil
		}
		reasons = append(reasons, address+": "+errortext.OneLine(err))
		if a.hasCard() {
			break
		}
	}
	return nil, coded(CodeCard, fmt.Errorf("none of the network's cards can be given to the pod: %s", strings.Join(reasons, "; ")))
}

// tryCard takes one card.
func (a *adding) tryCard(ctx context.Context, bus *passthrough.Bus, address string) (*takenCard, error) {
	card, err := canTake(bus, address)
	if err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(card.Interfaces[0])
	if err != nil {
		return nil, fmt.Errorf("look at its interface: %w", err)
	}
	a.Device.Card = address
	if err := a.store.write(&a.Record); err != nil {
		return nil, err
	}
	fault.Point("card-chosen")
	if err := a.claimCard(bus, card); err != nil {
		return nil, err
	}
	fault.Point("card-claimed")
	if _, err := bus.Bind(ctx, address); err != nil {
		return nil, errors.Join(err, a.giveBackCard())
	}
	fault.Point("card-bound")
	return &takenCard{address, link.Attrs().HardwareAddr.String(), link.Attrs().MTU}, nil
}

// canTake returns the card, or an error that says why it cannot be taken.
func canTake(bus *passthrough.Bus, address string) (*passthrough.Device, error) {
	card, reasons, err := bus.Check(address)
	switch owner := bus.Claimed(address); {
	case err != nil:
		return nil, err
	case owner != "":
		return nil, fmt.Errorf("it belongs to %s already", owner)
	case card.Driver == passthrough.VFIO || card.Driver == "":
		return nil, errors.New("the kernel does not have it, because it was given to another program")
	case len(reasons) > 0:
		return nil, errors.New(strings.Join(reasons, "; "))
	case len(card.Interfaces) != 1:
		return nil, fmt.Errorf("it has %d interfaces (%s), and a machine gets one", len(card.Interfaces), strings.Join(card.Interfaces, ", "))
	}
	return card, groupIsFree(bus, card)
}

// groupIsFree returns an error if another owner has a card of the IOMMU group: a machine gets a group as a whole.
func groupIsFree(bus *passthrough.Bus, card *passthrough.Device) error {
	others := bus.GivenAway(card)
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("of IOMMU group %d others were given away: %s; a group goes to one machine as a whole, so move the card to another slot, or give these back",
		card.Group, strings.Join(others, ", "))
}

// claimCard makes the attachment the owner of the card. If two attachments claim cards of one group at the same time,
// at most one succeeds.
func (a *adding) claimCard(bus *passthrough.Bus, card *passthrough.Device) error {
	switch claimed, err := bus.Claim(card.Address, a.owner()); {
	case err != nil:
		return err
	case !claimed:
		return fmt.Errorf("it belongs to %s already", bus.Claimed(card.Address))
	}
	if err := groupIsFree(bus, card); err != nil {
		return errors.Join(err, a.giveBackCard())
	}
	return nil
}

// hasCard reports whether the attachment owns a card.
func (r *Record) hasCard() bool {
	return r.Device.Card != "" && nodeBus().Claimed(r.Device.Card) == r.owner()
}

// unlessCard skips an undo step while the attachment still owns a card. The card's machine may still use it, with the
// address; DEL gives it back.
func (a *adding) unlessCard(undo func() error) func() error {
	return func() error {
		if a.hasCard() {
			return nil
		}
		return undo()
	}
}

// giveBackCard gives the cards of the attachment back to the node's kernel. It does not depend on the record, which may
// be lost.
func (r *Record) giveBackCard() error {
	return giveBack(func(owner string) bool { return owner == r.owner() })
}

// giveBackStrays gives back the cards of the network's attachments that are not valid, with or without a record.
func (s *Spec) giveBackStrays(valid map[types.GCAttachment]bool) error {
	return giveBack(func(owner string) bool {
		key, ok := CardOwner(owner)
		return ok && key.Network == s.Network && !valid[types.GCAttachment{ContainerID: key.ContainerID, IfName: key.Interface}]
	})
}

// giveBack gives back the cards of the chosen owners.
func giveBack(chosen func(owner string) bool) error {
	bus := nodeBus()
	claims := bus.Claims()
	var all error
	for _, address := range slices.Sorted(maps.Keys(claims)) {
		if !chosen(claims[address]) {
			continue
		}
		if err := bus.GiveBack(address, claims[address]); err != nil {
			all = errors.Join(all, fmt.Errorf("give back the pod's card %s: %w", address, err))
		}
	}
	return all
}

// networkOf returns how the machine configures its card.
func networkOf(ipam *current.Result, mtu int) kata.NetworkInfo {
	network := kata.NetworkInfo{Interface: kata.Interface{Addresses: []string{}, MTU: mtu}, Routes: []kata.Route{}, Neighbors: []kata.Neighbor{}}
	for _, ip := range ipam.IPs {
		network.Interface.Addresses = append(network.Interface.Addresses, ip.Address.String())
	}
	for _, route := range ipam.Routes {
		entry := kata.Route{Destination: route.Dst.String()}
		if route.GW != nil {
			entry.Gateway = route.GW.String()
		} else if isIPv4(route.Dst.IP) {
			entry.Scope = int(netlink.SCOPE_LINK)
		}
		network.Routes = append(network.Routes, entry)
	}
	return network
}

// cardResult describes the card as the pod's interface.
func (r *Record) cardResult(addresses *current.Result, taken *takenCard) *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, IPs: addresses.IPs, Routes: addresses.Routes, DNS: addresses.DNS}
	return withPod(result, &current.Interface{Name: r.Interface, Mac: taken.hardwareAddress, Mtu: taken.mtu, Sandbox: r.Netns, PciID: taken.address})
}

// checkCard reports differences from what Add made.
func (r *Record) checkCard() error {
	bus := nodeBus()
	card, err := bus.Read(r.Device.Card)
	switch {
	case err != nil:
		return fmt.Errorf("the pod's card: %w", err)
	case bus.Claimed(r.Device.Card) != r.owner():
		return fmt.Errorf("the pod's card %s belongs to %q; recreate the pod", r.Device.Card, bus.Claimed(r.Device.Card))
	case card.Driver != passthrough.VFIO:
		return fmt.Errorf("the pod's card %s has the driver %q, not %s; recreate the pod", r.Device.Card, card.Driver, passthrough.VFIO)
	}
	return nil
}
