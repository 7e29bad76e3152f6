// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"encoding/xml"
	"fmt"
	"net/netip"
)

const (
	// MaxSubscribers is the limit of subscribers that share an address with the publisher.
	MaxSubscribers = 31
	// fragmentBytes and largestMessage are Cyclone DDS's own defaults.
	fragmentBytes  = 1344
	largestMessage = 14720
	// The overheads of a message with one sample: its headers and the first submessage, and each further submessage.
	messageOverhead  = 52
	fragmentOverhead = 64
	// securedOverhead is the largest addition of encryption and signatures to both.
	securedOverhead = 384
)

// Config is Cyclone DDS's configuration of one process.
type Config struct {
	// Address is the address of the interface to use.
	Address netip.Addr
	// Multicast is for discovery and data; without it, participants are searched at the addresses of Peers.
	Multicast bool
	Peers     []netip.Addr
	// OneSampleBytes gives each sample of this size its own message; 0: ddsperf batches.
	OneSampleBytes int
	// Security is nil without DDS Security.
	Security *Security
}

// The configuration in Cyclone DDS's format.
type (
	document struct {
		XMLName xml.Name `xml:"CycloneDDS"`
		Domain  domain   `xml:"Domain"`
	}
	domain struct {
		ID        string         `xml:"Id,attr"`
		General   general        `xml:"General"`
		Discovery discoveryField `xml:"Discovery"`
		Security  *securityField `xml:"Security,omitempty"`
	}
	general struct {
		Interfaces     []networkInterface `xml:"Interfaces>NetworkInterface"`
		AllowMulticast bool               `xml:"AllowMulticast"`
		MaxMessageSize string             `xml:"MaxMessageSize,omitempty"`
	}
	networkInterface struct {
		Address string `xml:"address,attr"`
	}
	discoveryField struct {
		ParticipantIndex        string `xml:"ParticipantIndex"`
		MaxAutoParticipantIndex int    `xml:"MaxAutoParticipantIndex"`
		Peers                   []peer `xml:"Peers>Peer,omitempty"`
	}
	peer struct {
		Address string `xml:"address,attr"`
	}
)

// XML returns the configuration's text.
func (c *Config) XML() ([]byte, error) {
	d := domain{ID: "any",
		General:   general{Interfaces: []networkInterface{{c.Address.String()}}, AllowMulticast: c.Multicast},
		Discovery: discoveryField{ParticipantIndex: "auto", MaxAutoParticipantIndex: MaxSubscribers},
	}
	if !c.Multicast {
		for _, address := range c.Peers {
			d.Discovery.Peers = append(d.Discovery.Peers, peer{address.String()})
		}
	}
	if c.OneSampleBytes > 0 {
		d.General.MaxMessageSize = fmt.Sprintf("%dB", c.messageBytes())
	}
	if c.Security != nil {
		d.Security = c.Security.field()
	}
	text, err := xml.Marshal(document{Domain: d})
	if err != nil {
		return nil, fmt.Errorf("write the configuration of Cyclone DDS: %w", err)
	}
	return text, nil
}

// messageBytes returns a size that is too small for two samples, and large enough for one if Cyclone DDS allows that.
func (c *Config) messageBytes() int {
	fragments := (c.OneSampleBytes + fragmentBytes - 1) / fragmentBytes
	bytes := c.OneSampleBytes + messageOverhead + fragments*fragmentOverhead
	if c.Security != nil {
		bytes += securedOverhead
	}
	return min(bytes, largestMessage)
}
