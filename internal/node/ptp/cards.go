// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
)

// cards publishes the offsets of the network cards' clocks from the system's, for ktsn-agent, which may not open them.
type cards struct {
	folder string
	names  []string
	open   func(name string) (phc.Device, error)
	say    func(string)

	opened     map[string]phc.Device
	complaints map[string]string
}

// cardsOf returns the cards that stamp messages; none with software time stamps.
func (r *Runner) cardsOf(stamping Stamping) *cards {
	result := &cards{folder: r.RunDir, open: r.Card, say: r.say, opened: map[string]phc.Device{}, complaints: map[string]string{}}
	if stamping.Hardware {
		for _, device := range stamping.Devices {
			result.names = append(result.names, device.Name)
		}
	}
	return result
}

// publish reads and publishes all clocks. It reports an error once.
func (c *cards) publish() {
	for _, name := range c.names {
		complaint := ""
		if err := c.publishOne(name); err != nil {
			complaint = err.Error()
		}
		if complaint != c.complaints[name] && complaint != "" {
			c.say("the clock of " + name + " is not published: " + complaint)
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

// close closes the clocks and removes what was published.
func (c *cards) close() {
	for _, card := range c.opened {
		card.Close()
	}
	for _, name := range c.names {
		phc.Withdraw(c.folder, name)
	}
}
