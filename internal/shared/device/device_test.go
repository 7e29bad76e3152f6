// SPDX-License-Identifier: Apache-2.0

package device

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		asked map[string]string
		want  Device
	}{
		"none":  {nil, Device{}},
		"a tap": {map[string]string{"device": "tap"}, Device{Kind: Tap, Queues: 1, Class: ClassRecord}},
		"all of it": {map[string]string{"device": "vhost-user", "device-queues": "4", "device-class": "queue", "device-owner": "107"},
			Device{Kind: VhostUser, Queues: 4, Class: ClassQueue, Owner: 107}},
		"another class": {map[string]string{"device": "tap", "device-class": "pcp"}, Device{Kind: Tap, Queues: 1, Class: ClassPCP}},
	} {
		if got, err := Parse(test.asked); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

func TestParseInvalid(t *testing.T) {
	for want, asked := range map[string]map[string]string{
		`device is "macvtap"; give tap, vhost-user, veth or vfio`:           {"device": "macvtap"},
		`device is ""; give tap, vhost-user, veth or vfio`:                  {"device": ""},
		`device-queues is "2", and there is no device; give device as well`: {"device-queues": "2"},
		`device-owner is "107", and there is no device`:                     {"device-owner": "107"},
		`device-queues is "0"; give a number from 1 to 8`:                   {"device": "tap", "device-queues": "0"},
		`device-queues is "9"; give a number from 1 to 8`:                   {"device": "tap", "device-queues": "9"},
		`device-queues is "two"; give a number from 1 to 8`:                 {"device": "tap", "device-queues": "two"},
		`device-owner is "-1"; give a number from 0 to 4294967294`:          {"device": "tap", "device-owner": "-1"},
		`device-class is "dscp"; give one of record, pcp, queue`:            {"device": "tap", "device-class": "dscp"},
		`device is vfio, and no runtime finds the card`:                     {"device": "vfio"},
		`device is vfio, and queues, classes and owner are the card's own`:  {"device": "vfio", "device-queues": "2", "device-dan": "/run/kata-containers/dans"},
		`device-class is queue, and the device has one pair of queues`:      {"device": "tap", "device-class": "queue"},
	} {
		if got, err := Parse(asked); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %+v, %v; want %s", asked, got, err, want)
		}
	}
}

func TestTapName(t *testing.T) {
	for interfaceName, want := range map[string]string{
		"pod16477688c0e": "tap16477688c0e", "tsn0": "taptsn0", "twelve-chars": "taptwelve-chars",
	} {
		if got, err := TapName(interfaceName); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", interfaceName, got, err, want)
		}
	}
	if got, err := TapName("thirteen-char"); err == nil {
		t.Errorf("a name of 13 characters has the tap %s", got)
	}
}
