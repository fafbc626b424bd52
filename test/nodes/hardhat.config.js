// As `npx hardhat --init` leaves it where nothing is chosen: the network's own defaults are what is tested.
export default {}
