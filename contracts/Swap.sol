// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

// Fixtures of tests: a token with permits, and a router that swaps it in one transaction, as exchanges do.

contract PermitToken is ERC20Permit {
    constructor() ERC20("Permit Token", "PRMT") ERC20Permit("Permit Token") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}

interface Mintable {
    function mint(address to, uint256 amount) external;
}

contract SwapRouter {
    /// Takes `amount` of `sold` by the caller's permit, and gives twice as much of `bought`.
    function swapWithPermit(ERC20Permit sold, Mintable bought, uint256 amount, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external {
        sold.permit(msg.sender, address(this), amount, deadline, v, r, s);
        require(sold.transferFrom(msg.sender, address(this), amount), "not paid");
        bought.mint(msg.sender, 2 * amount);
    }
}
