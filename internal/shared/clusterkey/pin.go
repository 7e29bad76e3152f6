// SPDX-License-Identifier: Apache-2.0

package clusterkey

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Pin is the pinned state of another cluster: its public key, and its part of each network.
type Pin struct {
	Key   Public
	Parts map[string]Part
}

// ParsePin parses the form of String: the key on the first line, then a line for each network with its name and the cluster's parts of
// spec.ipv4 and spec.ipv6.
func ParsePin(text string) (*Pin, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	key, err := Parse(lines[0])
	if err != nil {
		return nil, err
	}
	pin := &Pin{Key: key, Parts: map[string]Part{}}
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 {
			return nil, fmt.Errorf("line %q: give the name of a network and the cluster's part of it, such as line 10.77.16.0/20", line)
		}
		part, err := ParsePart(fields[1], strings.Join(fields[2:], ""))
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		pin.Parts[fields[0]] = part
	}
	return pin, nil
}

// String returns the pin in the form that ParsePin reads.
func (p *Pin) String() string {
	lines := []string{p.Key.String()}
	for _, network := range slices.Sorted(maps.Keys(p.Parts)) {
		lines = append(lines, network+" "+p.Parts[network].String())
	}
	return strings.Join(lines, "\n")
}

// Part is a cluster's part of a network. IPv6 is invalid for a network without spec.ipv6; both are if the part is unknown.
type Part struct{ IPv4, IPv6 netip.Prefix }

// ParsePart parses a part; ipv6 may be empty.
func ParsePart(ipv4, ipv6 string) (part Part, err error) {
	if part.IPv4, err = netip.ParsePrefix(ipv4); err != nil || !part.IPv4.Addr().Is4() {
		return Part{}, errors.Join(fmt.Errorf("%q is not an IPv4 range", ipv4), err)
	}
	if ipv6 == "" {
		return part, nil
	}
	if part.IPv6, err = netip.ParsePrefix(ipv6); err != nil || !part.IPv6.Addr().Is6() {
		return Part{}, errors.Join(fmt.Errorf("%q is not an IPv6 range", ipv6), err)
	}
	return part, nil
}

// Texts returns both ranges, "" for a missing one.
func (p Part) Texts() (ipv4, ipv6 string) {
	if p.IPv4.IsValid() {
		ipv4 = p.IPv4.String()
	}
	if p.IPv6.IsValid() {
		ipv6 = p.IPv6.String()
	}
	return ipv4, ipv6
}

// String returns the ranges separated by a space.
func (p Part) String() string {
	ipv4, ipv6 := p.Texts()
	return strings.TrimSpace(ipv4 + " " + ipv6)
}

// Overlaps reports whether two parts have an address in common.
func (p Part) Overlaps(other Part) bool {
	return p.IPv4.Overlaps(other.IPv4) || p.IPv6.Overlaps(other.IPv6)
}

// Contains reports whether another part lies completely in this one.
func (p Part) Contains(other Part) bool {
	return p.Has(other.IPv4) && (!other.IPv6.IsValid() || p.Has(other.IPv6))
}

// Has reports whether a range lies in the part.
func (p Part) Has(subnet netip.Prefix) bool {
	return slices.ContainsFunc([]netip.Prefix{p.IPv4, p.IPv6}, func(prefix netip.Prefix) bool {
		return prefix.IsValid() && subnet.IsValid() && prefix.Bits() <= subnet.Bits() && prefix.Contains(subnet.Addr())
	})
}
