// SPDX-License-Identifier: Apache-2.0

// Package ddsperf builds the command lines and configurations for ddsperf of Cyclone DDS (0.10), and parses its output.
// It starts no program, except openssl.
//
// Each subscriber is a process, and so is the publisher. Throughput: the publisher publishes without limit and each
// subscriber counts. Latency: the publisher sends a ping, each subscriber answers, and the next ping is sent when all
// have answered; ddsperf prints halves of round trips.
//
// ddsperf enables batching and has no option to disable it: fourteen samples of 64 B then share a frame. A message size
// limit that fits only one sample (Config) gives each its own datagram.
package ddsperf

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"text/template"
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

// configuration is in Cyclone DDS's format.
var configuration = template.Must(template.New("").Funcs(template.FuncMap{"inline": inline, "plugin": plugin}).Parse(`<CycloneDDS><Domain Id="any">
<General><Interfaces><NetworkInterface address="{{.Address}}"/></Interfaces><AllowMulticast>{{.Multicast}}</AllowMulticast>
{{- if .OneSampleBytes}}<MaxMessageSize>{{.MessageBytes}}B</MaxMessageSize>{{end}}</General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>` + strconv.Itoa(MaxSubscribers) + `</MaxAutoParticipantIndex>
{{- if not .Multicast}}<Peers>{{range .Peers}}<Peer address="{{.}}"/>{{end}}</Peers>{{end}}</Discovery>
{{- with .Security}}<Security>
<Authentication>{{plugin "auth" "authentication"}}<IdentityCA>{{inline .Authority.Certificate}}</IdentityCA>
<IdentityCertificate>{{inline .Authority.Identity}}</IdentityCertificate><PrivateKey>{{inline .Authority.Key}}</PrivateKey></Authentication>
<AccessControl>{{plugin "ac" "access_control"}}<PermissionsCA>{{inline .Authority.Certificate}}</PermissionsCA>
<Governance>{{inline .Governance}}</Governance><Permissions>{{inline .Permissions}}</Permissions></AccessControl>
<Cryptographic>{{plugin "crypto" "crypto"}}</Cryptographic></Security>{{end}}
</Domain></CycloneDDS>`))

// plugin is the element of a library of DDS Security.
func plugin(file, name string) string {
	return fmt.Sprintf(`<Library path="%s/libdds_security_%s.so" initFunction="init_%s" finalizeFunction="finalize_%[3]s"/>`, PluginFolder, file, name)
}

// inline is a document in the configuration itself.
func inline(text []byte) (string, error) {
	var escaped strings.Builder
	err := xml.EscapeText(&escaped, text)
	return "data:," + escaped.String(), err
}

// XML returns the configuration's text.
func (c *Config) XML() ([]byte, error) {
	var text bytes.Buffer
	if err := configuration.Execute(&text, c); err != nil {
		return nil, fmt.Errorf("write the configuration of Cyclone DDS: %w", err)
	}
	return text.Bytes(), nil
}

// MessageBytes returns a size that is too small for two samples, and large enough for one if Cyclone DDS allows that.
func (c *Config) MessageBytes() int {
	fragments := (c.OneSampleBytes + fragmentBytes - 1) / fragmentBytes
	bytes := c.OneSampleBytes + messageOverhead + fragments*fragmentOverhead
	if c.Security != nil {
		bytes += securedOverhead
	}
	return min(bytes, largestMessage)
}
