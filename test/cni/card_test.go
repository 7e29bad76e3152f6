// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
)

// cardOf returns the address of a card that no machine has.
func cardOf(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("fff%x:%02x:%02x.7", os.Getpid()>>13&0xf, os.Getpid()>>5&0xff, os.Getpid()&0x1f)
}

// claimedCard assigns a card to a pod's attachment until the end of the test.
func claimedCard(t *testing.T, network string, p *pod) string {
	t.Helper()
	bus, card := passthrough.NewBus(), cardOf(t)
	owner := network + ":" + p.id + ":" + podIf + ":" + p.uid
	if ok, err := bus.Claim(card, owner); err != nil || !ok {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	t.Cleanup(func() {
		if err := bus.GiveBack(card, owner); err != nil {
			t.Error(err)
		}
	})
	return card
}

// keepCard blocks the return of a card, like a machine that has it open, until the returned function is called.
func keepCard(t *testing.T, card string) (end func()) {
	t.Helper()
	inTheWay := filepath.Join(passthrough.NewBus().StateDir, card)
	must(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o755))
	end = func() { must(t, os.RemoveAll(inTheWay)) }
	t.Cleanup(end)
	return end
}

// hasCardInstead writes the card into the pod's record and into Kata's file.
func hasCardInstead(t *testing.T, p *pod, network, folder, card string) (record string) {
	t.Helper()
	record = filepath.Join(p.node.dir, "state/attachments", network, p.id+":"+podIf)
	text, err := os.ReadFile(record)
	must(t, err)
	configuration := map[string]any{}
	must(t, json.Unmarshal(text, &configuration))
	configuration["device"] = map[string]any{"kind": "vfio", "card": card, "dan": folder}
	text, err = json.Marshal(configuration)
	must(t, errors.Join(err, os.WriteFile(record, text, 0o600)))
	devices := kata.Devices{Devices: []kata.Device{{Name: podIf, Back: kata.Back{Type: kata.VFIO, Card: card}}}}
	must(t, devices.Write(folder, p.id))
	return record
}

// networkOfCards returns a network of this test only, since the nodes of all tests share the kernel's cards.
func networkOfCards(t *testing.T, n *node) (string, *libcni.NetworkConfigList) {
	t.Helper()
	name := fmt.Sprintf("cards-%d", os.Getpid())
	return name, rename(t, name, n.config(nil))
}

func TestAddressIsKeptUntilCardIsReturned(t *testing.T) {
	for name, remove := range map[string]func(*pod, *libcni.NetworkConfigList) error{
		"by DEL": func(p *pod, configs *libcni.NetworkConfigList) error {
			return p.node.runtime.DelNetworkList(t.Context(), configs, p.attachment())
		},
		"by GC": func(p *pod, configs *libcni.NetworkConfigList) error {
			return p.node.forgetful(t, shipped(t)).GCNetworkList(t.Context(), configs, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			network, configs := networkOfCards(t, lab.a)
			pod, folder := lab.a.newPod(t), danFolder(t)
			must(t, lab.a.attach(configs, pod.attachment()))
			card := claimedCard(t, network, pod)
			record := hasCardInstead(t, pod, network, folder, card)
			addresses := glob(t, filepath.Join(lab.a.dir, "ipam", network, "10.*"))
			if len(addresses) != 1 {
				t.Fatalf("given away are %q", addresses)
			}
			things := []string{addresses[0], record, kata.Path(folder, pod.id)}
			end := keepCard(t, card)
			if err := remove(pod, configs); err == nil {
				t.Error("it did not fail")
			}
			for _, thing := range things {
				if _, err := os.Stat(thing); err != nil {
					t.Errorf("while its machine has the card, gone is %s", thing)
				}
			}
			end()
			must(t, remove(pod, configs))
			for _, thing := range things {
				if _, err := os.Stat(thing); err == nil {
					t.Errorf("left is %s", thing)
				}
			}
			if owner := passthrough.NewBus().Claimed(card); owner != "" {
				t.Errorf("the card is of %q", owner)
			}
		})
	}
}

func TestCardWithoutRecordIsReturned(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	network, configs := networkOfCards(t, lab.a)
	pod, bus := lab.a.newPod(t), passthrough.NewBus()
	card := claimedCard(t, network, pod)
	runtime := lab.a.forgetful(t, shipped(t))
	valid := []types.GCAttachment{{ContainerID: pod.id, IfName: podIf}}
	must(t, runtime.GCNetworkList(t.Context(), configs, &libcni.GCArgs{ValidAttachments: valid}))
	if bus.Claimed(card) == "" {
		t.Error("it was taken from a pod that there is")
	}
	must(t, runtime.GCNetworkList(t.Context(), rename(t, "other", lab.a.config(fields{"vni": 43})), &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}}))
	if bus.Claimed(card) == "" {
		t.Error("it was taken from a pod of another network")
	}
	must(t, runtime.GCNetworkList(t.Context(), configs, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}}))
	if owner := bus.Claimed(card); owner != "" {
		t.Errorf("it is of %q", owner)
	}
	if again := claimedCard(t, network, pod); again != card {
		t.Fatal(again)
	}
	must(t, runtime.DelNetworkList(t.Context(), rename(t, network, lab.a.config(fields{"device": "vfio", "device-dan": danFolder(t), "cards": []string{card}})), pod.attachment()))
	if owner := bus.Claimed(card); owner != "" {
		t.Errorf("after DEL it is of %q", owner)
	}
}
