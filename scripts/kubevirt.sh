#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts a cluster with KubeVirt, and a virtual machine that the binding plugin connects to a network. Called by `make kubevirt`.
#
#   KTSN_KEEP=1     leave the cluster up at the end
#   KTSN_TSN_CNI=P  another tsn-cni than bin/tsn-cni
set -eu
cd "$(dirname "$0")/.."
name=kubevirt-$(pwd | sha256sum | head -c 6)
out=$PWD/out/kubevirt module=test/cluster/components/kubevirt files=test/cluster/kubevirt
cluster() { bin/ktsn-cluster --name "$name" "$@"; }
end() { [ "${KTSN_KEEP:-}" = 1 ] || cluster down; }
trap end EXIT
trap 'exit 130' INT TERM

mkdir -p "$out/programs" "$out/lock"
echo "== building KubeVirt"
CGO_ENABLED=1 nice -n 10 scripts/go.sh build -C $module -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/programs/" tool ./manifests
source=$(scripts/go.sh list -C $module -m -f '{{.Dir}}' kubevirt.io/kubevirt)
gcc -static -O2 -o "$out/programs/container-disk" "$source/cmd/container-disk-v2alpha/main.c"
install -m 755 "$source/cmd/virt-launcher/node-labeller/node-labeller.sh" "$out/programs/"

# A kernel, and a first process that echoes frames. KubeVirt 1.7.0 has CRC-32s of both in int32 fields, and Kubernetes versions that
# validate formats reject larger values.
base=$(scripts/guest-kernel.sh)
rm -rf "$out/guest" && mkdir -p "$out/guest/root"
release=$(ls "$base/kernel/lib/modules")
for module_name in virtio_pci virtio_net af_packet; do
	/usr/sbin/modprobe -d "$base/kernel" -S "$release" --show-depends $module_name | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r file; do
	cp "$file" "$out/guest/root/"
	echo "/${file##*/}"
done >"$out/guest/modules"
mv "$out/guest/modules" "$out/guest/root/modules"
cp bin/ktsn-test-machine "$out/guest/root/init"
(cd "$out/guest/root" && find . | cpio -o -H newc --quiet) >"$out/guest/initial.cpio"
cp "$base/vmlinuz" "$out/guest/"
for file in "$out/guest/vmlinuz" "$out/guest/initial.cpio"; do
	while [ $((16#$(gzip -1 -c "$file" | tail -c 8 | head -c 4 | od -An -tx4 | tr -d ' '))) -ge $((1 << 31)) ]; do
		head -c 4 /dev/zero >>"$file"
	done
done

echo "== making images"
bin/ktsn-images --lock "$out/lock/debian.lock" --write-lock --out "$out/images" --source KV="$out/programs" \
	--source F=$files/files --source G="$out/guest" $files/images/*.yaml
bin/ktsn-images --out "$out/sidecar" --source BIN=bin images/ktsn-kubevirt.yaml

echo "== starting a cluster"
cluster up
KUBECONFIG=$(cluster kubeconfig)
export KUBECONFIG
for image in "$out"/{images,sidecar}/*.tar; do cluster load "$image"; done
for node in node1 node2; do
	install -m 755 "${KTSN_TSN_CNI:-bin/tsn-cni}" "/var/lib/ktsn-cluster/$name/nodes/$node/rootfs/opt/cni/bin/tsn-cni"
done
kubectl label node node1 node-role.kubernetes.io/control-plane=
kubectl label namespace default pod-security.kubernetes.io/enforce=privileged --overwrite

echo "== installing KubeVirt"
"$out/programs/manifests" | kubectl apply --server-side -f - >/dev/null
kubectl apply -f $files/kubevirt.yaml
kubectl -n kubevirt wait kubevirt/kubevirt --for=jsonpath='{.status.phase}'=Deployed --timeout=5m
kubectl -n kubevirt rollout status daemonset/virt-handler --timeout=2m

echo "== a virtual machine"
kubectl apply -f $files/machine.yaml
kubectl wait vmi/plc --for=jsonpath='{.status.phase}'=Running --timeout=3m
kubectl get vmi plc -o wide
