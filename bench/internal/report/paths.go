// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
)

// look is the style of a path, the same in every figure of every report. The colours are Okabe and Ito's, which
// colour-blind readers can distinguish; dashes serve prints without colour.
type look struct {
	color  color.NRGBA
	dashes []vg.Length
	// route describes the route of messages in a few words.
	route string
}

var (
	blue       = color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	vermillion = color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}
	green      = color.NRGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}
	purple     = color.NRGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}
	sky        = color.NRGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}
	orange     = color.NRGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}
	black      = color.NRGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
	grey       = color.NRGBA{R: 0x88, G: 0x88, B: 0x88, A: 0xff}
)

var looks = map[string]look{
	"direct": {blue, nil, "pod a, libktsn, ktsnd (which adds VXLAN itself), pod b; handed over ahead of its " +
		"time with SO_TXTIME"},
	"kernel-vxlan": {vermillion, []vg.Length{7, 3}, "pod a, the kernel’s bridge and VXLAN, pod b; the talker " +
		"sleeps until the time and sends"},
	"host": {green, []vg.Length{2, 2}, "from one node to the other by their own network, without overlay; the talker sleeps until the " +
		"time and sends"},
	"kernel-vxlan-spin": {orange, []vg.Length{14, 3}, "as kernel-vxlan, but the talker is awake before it sends, as ktsnd is: it reads the clock " +
		"until the time"},
	"host-spin": {black, []vg.Length{2, 4}, "as host, but the talker is awake before it sends"},
	"guest-tap": {sky, []vg.Length{5, 2}, "emulated virtual machine a, a tap, the host’s relay, ktsnd, emulated virtual machine b; handed over ahead of " +
		"its time with SO_TXTIME, and held on the host"},
	"guest-vhost": {purple, []vg.Length{8, 2}, "as guest-tap, by vhost-user in place of taps"},
	"guest-released": {vermillion, []vg.Length{3, 3}, "emulated virtual machine a, whose own etf holds the frame until its time, a tap, the kernel’s bridge and " +
		"VXLAN, emulated virtual machine b"},
	"ovs": {purple, []vg.Length{8, 2, 2, 2}, "pod a, libktsn, ktsnd, OVS-DPDK, pod b"},
	"tsn": {sky, nil, "two pods on different nodes of a cluster, libktsn, ktsnd; handed over ahead of its time with " +
		"SO_TXTIME"},
	"primary": {orange, []vg.Length{7, 3}, "two pods on different nodes, by the network that each pod of the cluster has; the " +
		"talker sleeps until the time and sends"},
	"primary-spin": {vermillion, []vg.Length{14, 3}, "as primary, but the talker is awake before it sends, as ktsnd is: it reads the clock " +
		"until the time"},
	"flannel":         {orange, []vg.Length{7, 3}, "two pods of a cluster, through Flannel with VXLAN"},
	"flannel-host-gw": {black, []vg.Length{4, 2}, "two pods of a cluster, through Flannel with routes"},
}

func lookOf(path string) look {
	if known, ok := looks[path]; ok {
		return known
	}
	return look{color: grey}
}

// tint is the path's colour for areas.
func (l look) tint() color.NRGBA {
	tint := l.color
	tint.A = 0x40
	return tint
}

// swatch is the key to a path in the page's text: a piece of its line.
func (l look) swatch() template.HTML {
	dashes := make([]string, len(l.dashes))
	for i, dash := range l.dashes {
		dashes[i] = fmt.Sprintf("%g", dash.Points())
	}
	dasharray := ""
	if len(dashes) > 0 {
		dasharray = ` stroke-dasharray="` + strings.Join(dashes, ",") + `"`
	}
	// All parts are constants of this file.
	return template.HTML(fmt.Sprintf(`<svg class="swatch" viewBox="0 0 24 10" aria-hidden="true">`+
		`<path d="M0,5H24" fill="none" stroke="#%02x%02x%02x" stroke-width="3"%s/></svg>`,
		l.color.R, l.color.G, l.color.B, dasharray))
}
