// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
)

// cards publishes how far the clocks of the network cards are from the system's, for who watches the clock without the privilege to open
// them.
type cards struct {
	folder string
	names  []string
	open   func(name string) (phc.Device, error)
	say    func(string)

	opened     map[string]phc.Device
	complaints map[string]string
}

// cardsOf are those that stamp; none in software.
func (r *Runner) cardsOf(stamping Stamping) *cards {
	made := &cards{folder: r.RunDir, open: r.Card, say: r.say, opened: map[string]phc.Device{}, complaints: map[string]string{}}
	if stamping.Hardware {
		for _, device := range stamping.Devices {
			made.names = append(made.names, device.Name)
		}
	}
	return made
}

// publish reads all and publishes. What cannot be read is said once.
func (c *cards) publish() {
	for _, name := range c.names {
		complaint := ""
		if err := c.publishOne(name); err != nil {
			complaint = err.Error()
		}
		if complaint != c.complaints[name] && complaint != "" {
			c.say("who watches the clock does not hear of " + name + ": " + complaint)
		}
		c.complaints[name] = complaint
	}
}

func (c *cards) publishOne(name string) error {
	card := c.opened[name]
	if card == nil {
		var err error
		if card, err = c.open(name); err != nil {
			return err
		}
		c.opened[name] = card
	}
	reading, err := card.Compare()
	if err != nil {
		card.Close()
		delete(c.opened, name)
		return err
	}
	return phc.Publish(c.folder, name, reading)
}

// close leaves nothing.
func (c *cards) close() {
	for _, card := range c.opened {
		card.Close()
	}
	for _, name := range c.names {
		phc.Withdraw(c.folder, name)
	}
}
