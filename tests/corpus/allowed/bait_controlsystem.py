# rule: none
# checks a control loop with an own class that has a system() method
class Plant:
    def __init__(self, gain, tau):
        self.gain, self.tau, self.y = gain, tau, 0.0

    def system(self, u, dt=0.01):
        self.y += dt * (self.gain * u - self.y) / self.tau
        return self.y

class PI:
    def __init__(self, kp, ki):
        self.kp, self.ki, self.acc = kp, ki, 0.0

    def call(self, error, dt=0.01):
        self.acc += error * dt
        return self.kp * error + self.ki * self.acc

plant, controller = Plant(2.0, 0.5), PI(1.0, 2.0)
target, trace = 1.0, []
for k in range(2000):
    u = controller.call(target - plant.y)
    trace.append(plant.system(u))

print(f"final {trace[-1]:.6f}, peak {max(trace):.4f}")
assert abs(trace[-1] - target) < 1e-6
assert max(trace) < 1.3
os = {"system": plant.system}     # operating states of the plant
assert abs(os["system"](u) - target) < 1e-6
