// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"
)

// Times of the conversation.
const (
	// answerPatience is how long an answer may take. ptp4l answers between two packets.
	answerPatience = 400 * time.Millisecond
	// subscriptionLength is for how long ptp4l is asked to notify; renewed when less than half of it is left.
	subscriptionLength = 180 * time.Second
	// slowInterval is how often what hardly changes is asked for.
	slowInterval = 10 * time.Second
)

// ErrNoAnswer : nobody reads ptp4l's socket, or what reads it is no ptp4l.
var ErrNoAnswer = errors.New("no answer")

// slow has data that is polled rarely, because it changes with the grandmaster, which frequent answers contain.
type slow struct {
	asked       time.Time
	grandmaster ptp.ClockIdentity
	local       ptp.ClockIdentity
	quality     ptp.ClockQuality
	time        timeProperties
}

// frequent and rare are what a poll asks for. ptp4l answers in this order; of the ports each does, so they are not the last.
var (
	frequent = []ptp.ManagementID{ptp.IDPortPropertiesNP, ptp.IDCurrentDataSet, ptp.IDTimeStatusNP}
	rare     = []ptp.ManagementID{ptp.IDDefaultDataSet, ptp.IDParentDataSet, idTimeProperties}
)

// Poll asks for the clock's state.
func (c *Client) Poll(ctx context.Context) (*Status, error) {
	if refused := c.refused.Load(); refused != nil {
		return nil, refused
	}
	c.forget()
	if err := c.renew(); err != nil {
		return nil, err
	}
	answers, err := c.ask(ctx, frequent)
	if err != nil {
		return nil, err
	}
	status := &Status{}
	grandmaster := status.take(answers)
	if now := time.Now(); grandmaster != c.slow.grandmaster || now.Sub(c.slow.asked) >= slowInterval {
		rarely, err := c.ask(ctx, rare)
		if err != nil {
			return nil, err
		}
		c.slow.take(rarely)
		c.slow.grandmaster, c.slow.asked = grandmaster, now
	}
	c.slow.put(status)
	return status, nil
}

// Hurry lets the next Poll ask for all.
func (c *Client) Hurry() { c.slow.asked = time.Time{} }

// forget drops answers to what was asked earlier, which came too late.
func (c *Client) forget() {
	for {
		select {
		case <-c.answers:
		default:
			return
		}
	}
}

// renew subscribes to changes of ports' states before the subscription ends.
func (c *Client) renew() error {
	now := time.Now()
	if c.subscribed.Sub(now) > subscriptionLength/2 {
		return nil
	}
	if err := c.send(c.to, ptp.SET, idSubscribeEvents, subscribe(uint16(subscriptionLength/time.Second))); err != nil {
		return err
	}
	c.subscribed = now.Add(subscriptionLength)
	return nil
}

func (c *Client) send(to Address, action ptp.Action, id ptp.ManagementID, body []byte) error {
	c.sequence++
	message, err := Request(c.from, to, c.sequence, action, id, body)
	if err != nil {
		return err
	}
	if err := c.connection.SetWriteDeadline(time.Now().Add(answerPatience)); err != nil {
		return fmt.Errorf("ask ptp4l: %w", err)
	}
	if _, err := c.connection.Write(message); err != nil {
		return fmt.Errorf("ask ptp4l: %w", err)
	}
	return nil
}

// ask requests all of ids and waits for an answer to each. More may come: one for each port.
func (c *Client) ask(ctx context.Context, ids []ptp.ManagementID) ([]*ptp.Management, error) {
	for _, id := range ids {
		if err := c.send(c.to, ptp.GET, id, nil); err != nil {
			return nil, err
		}
	}
	missing := slices.Clone(ids)
	timeout := time.NewTimer(answerPatience)
	defer timeout.Stop()
	var answers []*ptp.Management
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			return nil, fmt.Errorf("ptp4l was asked for 0x%04x: %w within %v", uint16(missing[0]), ErrNoAnswer, answerPatience)
		case answer := <-c.answers:
			id := answer.TLV.MgmtID()
			answers = append(answers, answer)
			missing = slices.DeleteFunc(missing, func(managementID ptp.ManagementID) bool { return managementID == id })
		}
	}
	return c.more(answers), nil
}

// more takes what has come already beyond one answer to each request.
func (c *Client) more(answers []*ptp.Management) []*ptp.Management {
	for {
		select {
		case answer := <-c.answers:
			answers = append(answers, answer)
		default:
			return answers
		}
	}
}

// first are the addresses of most ptp4l: majorSdoId 0, or 1 (802.1AS), in the first domains. rest are all others.
var first, rest = addresses(0, 8), addresses(8, 256)

func addresses(from, to int) []Address {
	var all []Address
	for domain := from; domain < to; domain++ {
		for sdo := range uint8(2) {
			all = append(all, Address{uint8(domain), sdo}) //nolint:gosec // below 256
		}
	}
	return all
}

// find learns which address the ptp4l answers to: one of the likely ones, or of the others, of which a few are tried at a time.
func (c *Client) find(ctx context.Context, likely, others []Address) error {
	patience := answerPatience
	if len(others) == 0 {
		patience *= 4 // about what asking the others takes
	}
	if known, err := c.try(ctx, likely, patience); known || err != nil {
		return err
	}
	for batch := range slices.Chunk(others, len(first)) {
		if known, err := c.try(ctx, batch, answerPatience/10); known || err != nil {
			return err
		}
	}
	if _, garbage := c.Dropped(); garbage > 0 {
		return fmt.Errorf("what answers is no ptp4l (%d messages could not be read): %w", garbage, ErrNoAnswer)
	}
	return fmt.Errorf("ptp4l was asked for its domain: %w", ErrNoAnswer)
}

// try asks at addresses, and waits for an answer to any.
func (c *Client) try(ctx context.Context, addresses []Address, patience time.Duration) (known bool, err error) {
	for _, address := range addresses {
		if err := c.send(address, ptp.GET, ptp.IDDefaultDataSet, nil); err != nil {
			return false, err
		}
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(patience):
	case answer := <-c.answers:
		c.to = Address{answer.DomainNumber, uint8(answer.SdoIDAndMsgType) >> 4}
		return true, nil
	}
	if refused := c.refused.Load(); refused != nil {
		return false, refused
	}
	return false, nil
}

// take reads the frequent answers and returns the grandmaster.
func (s *Status) take(answers []*ptp.Management) ptp.ClockIdentity {
	var grandmaster ptp.ClockIdentity
	for _, answer := range answers {
		switch tlv := answer.TLV.(type) {
		case *ptp.TimeStatusNPTLV:
			s.Offset, s.Measured, grandmaster = time.Duration(tlv.MasterOffsetNS), tlv.IngressTimeNS, tlv.GMIdentity
			s.Grandmaster = tlv.GMIdentity.String()
		case *ptp.CurrentDataSetTLV:
			s.PathDelay, s.StepsRemoved = time.Duration(tlv.MeanPathDelay.Nanoseconds()), int(tlv.StepsRemoved)
		case *ptp.PortPropertiesNPTLV:
			s.takePort(tlv)
		}
	}
	slices.SortFunc(s.Ports, func(a, b Port) int { return a.Number - b.Number })
	return grandmaster
}

func (s *Status) takePort(tlv *ptp.PortPropertiesNPTLV) {
	const longestName = 15
	name := string(tlv.Interface)
	port := Port{Number: int(tlv.PortIdentity.PortNumber), Interface: name[:min(len(name), longestName)], State: tlv.PortState.String(),
		Hardware: tlv.Timestamping != ptp.TimestampingSoftware && tlv.Timestamping != ptp.TimestampingLegacyHW}
	if port.State == "" {
		port.State = fmt.Sprintf("STATE_%d", tlv.PortState)
	}
	if at := slices.IndexFunc(s.Ports, func(other Port) bool { return other.Number == port.Number }); at >= 0 {
		s.Ports[at] = port
		return
	}
	s.Ports = append(s.Ports, port)
}

func (s *slow) take(answers []*ptp.Management) {
	for _, answer := range answers {
		switch tlv := answer.TLV.(type) {
		case *ptp.DefaultDataSetTLV:
			s.local = tlv.ClockIdentity
		case *ptp.ParentDataSetTLV:
			s.quality = tlv.GrandmasterClockQuality
		case *timeProperties:
			s.time = *tlv
		}
	}
}

func (s *slow) put(status *Status) {
	status.Identity = s.local.String()
	status.Class, status.Accuracy = uint8(s.quality.ClockClass), uint8(s.quality.ClockAccuracy)
	status.UTCOffset, status.UTCOffsetValid = int(s.time.CurrentUTCOffset), s.time.Flags&flagUTCOffsetValid != 0
	status.PTPTimescale = s.time.Flags&flagPTPTimescale != 0
}
