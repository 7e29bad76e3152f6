// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
)

func (c *Config) readUnseen(raw json.RawMessage) error {
	if err := decode(raw, &c.Unseen, `"drop" or "pass"`); err != nil {
		return err
	}
	if c.Unseen != attachment.UnseenDrop && c.Unseen != attachment.UnseenPass {
		return fmt.Errorf(`%q is neither; give "drop", or "pass" to let datagrams out early that libktsn.so does not see`, c.Unseen)
	}
	return nil
}

func (c *Config) readCapture(raw json.RawMessage) error {
	var text string
	if err := decode(raw, &text, `"None", "Timed" or "All"`); err != nil {
		return err
	}
	mode, err := capture.ParseMode(text)
	c.requestedCapture = &mode
	return err
}

// readReceive parses what the network offers.
func (c *Config) readReceive(raw json.RawMessage) error {
	var offered map[string]json.RawMessage
	if err := decode(raw, &offered, `an object such as {"redirect": true, "rings": true}`); err != nil {
		return err
	}
	for name, value := range offered {
		into := map[string]*bool{"redirect": &c.Receive.Redirect, "rings": &c.RingsOffered}[name]
		if into == nil {
			return fmt.Errorf("unknown field %s; there are redirect and rings", name)
		}
		if err := decode(value, into, "true or false"); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// maxOverhead is more than any encryption adds.
const maxOverhead = 256

// readEncryption parses how the network is encrypted. ktsn-agent, which has the keys, writes it.
func (c *Config) readEncryption(raw json.RawMessage) error {
	var values map[string]json.RawMessage
	if err := decode(raw, &values, `an object such as {"overhead": 37, "active": true}`); err != nil {
		return err
	}
	for name, value := range values {
		var err error
		switch name {
		case "overhead":
			if err = decode(value, &c.Overlay.Overhead, "a number of bytes"); err == nil && (c.Overlay.Overhead < 0 || c.Overlay.Overhead > maxOverhead) {
				err = fmt.Errorf("%d bytes; give 0 to %d", c.Overlay.Overhead, maxOverhead)
			}
		case "active":
			err = decode(value, &c.Overlay.Encrypted, "true or false")
		case "refused":
			err = decode(value, &c.Unencryptable, "a sentence")
		default:
			return fmt.Errorf("unknown field %s; there are overhead, active and refused", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// maxCards bounds the sentence that says why none of them can be had.
const maxCards = 64

func (c *Config) readCards(raw json.RawMessage) error {
	if err := decode(raw, &c.Cards, "a list of PCI addresses"); err != nil {
		return err
	}
	if len(c.Cards) > maxCards {
		return fmt.Errorf("has %d cards; give at most %d", len(c.Cards), maxCards)
	}
	for i, card := range c.Cards {
		var err error
		if c.Cards[i], err = passthrough.ParseAddress(card); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) readLink(raw json.RawMessage) error {
	var read attachment.Link
	if err := decodeStrictly(raw, &read); err != nil {
		return err
	}
	c.Link = &read
	return read.Validate()
}

// decodeStrictly reads an object whose fields are all known.
func decodeStrictly(raw json.RawMessage, into *attachment.Link) error {
	var fields map[string]json.RawMessage
	if err := decode(raw, &fields, "an object with addresses, mac and peer"); err != nil {
		return err
	}
	for name := range fields {
		if !slices.Contains([]string{"addresses", "mac", "peer", "routes", "forward"}, name) {
			return fmt.Errorf("unknown field %s; there are addresses, mac, peer, routes and forward", name)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return explainType(err)
	}
	return nil
}

// completeLinks checks what the modes for links need, and fills in the rest.
func (c *Config) completeLinks() error {
	switch {
	case c.Sandbox && c.Link != nil:
		return invalid("link: the configuration has links as well, which makes no interface; leave one of them out")
	case c.Standard.IPAM.Type != "":
		return invalid("ipam: the addresses of links are given; leave it out")
	case c.Sandbox:
		return nil
	case c.Overlay.MTU == 0:
		return invalid("mtu: missing; both ends of a link have the same, which this node alone does not know")
	}
	c.Overlay.PointToPoint = true
	return nil
}
