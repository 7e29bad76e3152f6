// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// What kubelet says of the pod, when the CSIDriver object asks for it (podInfoOnMount).
const (
	contextPrefix    = "csi.storage.k8s.io/"
	contextEphemeral = contextPrefix + "ephemeral"
	contextUID       = contextPrefix + "pod.uid"
	contextName      = contextPrefix + "pod.name"
	contextNamespace = contextPrefix + "pod.namespace"
)

// uidForm is narrower than ktsnd's form of identities: it names a folder, too.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9]{0,63}$`)

// read turns a request into the volume it asks for.
func (d *Driver) read(request *csi.NodePublishVolumeRequest) (*Volume, error) {
	if err := d.checkPlace(request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	about := request.GetVolumeContext()
	for name := range about {
		if !strings.HasPrefix(name, contextPrefix) {
			return nil, fmt.Errorf("volumeAttributes: %s: there is no such attribute; this driver knows none", name)
		}
	}
	if about[contextEphemeral] != "true" {
		return nil, fmt.Errorf("%s has inline volumes only; name it in the pod, among its volumes", DriverName)
	}
	volume := &Volume{
		ID: request.GetVolumeId(), Target: filepath.Clean(request.GetTargetPath()),
		UID: about[contextUID], Namespace: about[contextNamespace], Pod: about[contextName],
	}
	if !uidForm.MatchString(volume.UID) || volume.Namespace == "" || volume.Pod == "" {
		return nil, fmt.Errorf("kubelet says nothing of the pod (%s %q); the CSIDriver object %s must have podInfoOnMount: true",
			contextUID, volume.UID, DriverName)
	}
	return volume, nil
}

func (d *Driver) checkPlace(id, target string) error {
	switch {
	case id == "":
		return errors.New("volume_id: missing")
	case target == "":
		return errors.New("target_path: missing")
	case !strings.HasPrefix(filepath.Clean(target), filepath.Clean(d.PodsDir)+"/"):
		return fmt.Errorf("target_path: %s is not below %s, where this driver mounts; start the agent with kubelet's own folder", target, d.PodsDir)
	}
	return nil
}

func checkCapability(capability *csi.VolumeCapability) error {
	switch {
	case capability == nil:
		return errors.New("volume_capability: missing")
	case capability.GetMount() == nil:
		return fmt.Errorf("volume_capability: %s has no block volumes", DriverName)
	}
	return nil
}
