"""Real nodes: namespaces, containerd, a kubelet and a kube-proxy each."""
